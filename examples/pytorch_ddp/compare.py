#!/usr/bin/env python3
"""Compares exchanges of gradients: trains each variant on local ranks, writes a table and a plot.

    compare.py --ranks 4 --seeds 1 2 --page page.md --plot plot.svg -- --epochs 6

What follows -- goes to train.py. The runs stay in --folder; those that are there are not run again.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = {
    "dense": ["--method", "dense"],
    "top-k 1 %, feedback": [],
    "top-k 1 %, no feedback": ["--no-feedback"],
    "top-k 0.1 %, feedback": ["--ratio", "0.001"],
    "random mask 10 %, feedback": ["--method", "masked", "--ratio", "0.1"],
}
#: Bits a second of the links in the curves of efficiency.
LINKS = {"1 Gb/s": 1e9, "10 Gb/s": 1e10}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--counts", type=int, nargs="*", default=[2, 4, 8],
                        help="numbers of ranks for the efficiency E(P)")  # fmt: skip
    parser.add_argument("--folder", default="runs/compare")
    parser.add_argument("--page", default="", help="Markdown; default: the terminal")
    parser.add_argument("--plot", default="", help="an image; needs matplotlib")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds of one training")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="of train.py")
    own = parser.parse_args(arguments)
    runs = {
        name: [
            run(own, own.ranks, f"{slug(name)}-{seed}", [*VARIANTS[name], "--seed", str(seed)])
            for seed in own.seeds
        ]
        for name in own.variants
    }
    efficiency = {count: step_costs(own, count) for count in own.counts}
    alone = alone_ms(own) if efficiency else 0.0
    page = "\n".join([*losses_of(own, runs), *efficiency_of(efficiency, alone)]) + "\n"
    if own.page:
        with open(own.page, "w", encoding="utf-8") as file:
            file.write(page)
    else:
        print(page)
    if own.plot:
        plot(own.plot, runs, efficiency, alone)


def slug(name):
    return "".join(each if each.isalnum() else "_" for each in name)


def run(own, ranks, name, options):
    """The records of a training of so many ranks."""
    folder = os.path.join(os.path.abspath(own.folder), name)
    done = os.path.join(folder, "done")
    if not os.path.exists(done):
        print(f"{name}: {ranks} ranks", file=sys.stderr, flush=True)
        train(ranks, [*own.options, *options, "--folder", folder], own.timeout)
        with open(done, "w", encoding="utf-8"):
            pass
    with open(os.path.join(folder, "steps.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def train(ranks, options, timeout):
    """Runs train.py on local ranks, as torchrun does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            [sys.executable, os.path.join(HERE, "train.py"), *options],
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    try:
        codes = [each.wait(timeout) for each in started]
    finally:
        for each in started:
            each.kill()
    if any(codes):
        raise SystemExit(f"train.py {' '.join(options)} failed: exit codes {codes}")


def step_costs(own, count):
    """Bytes that a rank sends in a step after the warm-up: of top-k, and of a dense ring."""
    short = ["--epochs", "1", "--train-examples", str(16 * 40 * count), "--test-examples", "512",
             "--warmup-steps", "0", "--log-steps", "20", "--batch-size", "16"]  # fmt: skip
    records = run(own, count, f"bytes-topk-{count}", short)
    at = {each["step"]: each for each in records if each["kind"] == "train"}
    return {
        kind: (at[40][key] - at[20][key]) / 20
        for kind, key in (("dense", "dense_bytes"), ("topk", "bytes_sent"))
    }


def ends(runs):
    """The last test of each run."""
    return [[each for each in records if each["kind"] == "test"][-1] for records in runs]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def compute_ms(runs):
    """Milliseconds of a step: the median."""
    steps = sorted(e["step_ms"] for records in runs for e in records if e["kind"] == "train")
    return steps[len(steps) // 2]


def losses_of(own, runs):
    base = mean(each["loss"] for each in ends(runs["dense"])) if "dense" in runs else None
    steps = ends(next(iter(runs.values())))[0]["step"]
    yield f"{own.ranks} ranks, {steps} steps, seeds {', '.join(map(str, own.seeds))}."
    yield ""
    yield ("| variant | test loss | of dense | accuracy | MB sent by a rank | of a dense ring "
           "| step ms |")  # fmt: skip
    yield "|---|---|---|---|---|---|---|"
    for name, records in runs.items():
        last = ends(records)
        loss = mean(each["loss"] for each in last)
        each_loss = ", ".join(f"{each['loss']:.4f}" for each in last)
        of_dense = f"{loss / base:.3f}" if base else "-"
        accuracy = f"{100 * mean(each['accuracy'] for each in last):.2f} %"
        sent = fraction = "-"
        if "bytes_sent" in last[0]:
            sent = f"{mean(each['bytes_sent'] for each in last) / 1e6:.1f}"
            fraction = f"{100 * mean(each['sent_fraction'] for each in last):.1f} %"
        yield (f"| {name} | {loss:.4f} ({each_loss}) | {of_dense} | {accuracy} | {sent} "
               f"| {fraction} | {compute_ms(records):.1f} |")  # fmt: skip


def efficiency_of(costs, alone):
    """E(P): the share of a step that computes, if sending does not overlap with it."""
    if not costs:
        return
    yield ""
    yield "Bytes that a rank sends in a step after the warm-up; dense: in a ring, 2 (P - 1) / P of all."
    yield "The efficiency is E(P) = compute time / (compute time + bytes / bandwidth): nothing overlaps,"
    yield "and latency is not counted."
    yield f"Compute time: {alone:.2f} ms, the median step of one rank alone."
    yield ""
    columns = [f"E(P), {kind}, {link}" for link in LINKS for kind in ("dense", "top-k")]
    yield f"| ranks P | dense, kB | top-k 1 %, kB | {' | '.join(columns)} |"
    yield "|" + "---|" * (3 + len(columns))
    for count, sent in costs.items():
        cells = [
            f"{share(alone, sent[kind], bits):.2f}"
            for bits in LINKS.values() for kind in ("dense", "topk")
        ]  # fmt: skip
        kilobytes = [f"{sent[kind] / 1e3:.1f}" for kind in ("dense", "topk")]
        yield "| " + " | ".join([str(count), *kilobytes, *cells]) + " |"


def share(milliseconds, sent_bytes, bits):
    return milliseconds / (milliseconds + 1e3 * 8 * sent_bytes / bits)


def alone_ms(own):
    """A step of one rank that exchanges nothing."""
    short = ["--epochs", "1", "--train-examples", "3200", "--test-examples", "512",
             "--log-steps", "5", "--batch-size", "16"]  # fmt: skip
    return compute_ms([run(own, 1, "alone", short)])


def plot(path, runs, efficiency, alone):
    try:
        import matplotlib
    except ImportError:
        raise SystemExit(f"{path} needs matplotlib: run `pip install matplotlib`") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sparcl"
    from matplotlib import pyplot

    figure, (by_step, by_bytes, by_ranks) = pyplot.subplots(1, 3, figsize=(14, 4.2))
    ring = {each["step"]: each["dense_bytes"] for records in runs.values() for each in records[0]
            if "dense_bytes" in each}  # fmt: skip
    for i, (name, records) in enumerate(runs.items()):
        tests = [each for each in records[0] if each["kind"] == "test"]
        losses, look = [each["loss"] for each in tests], {"color": f"C{i}", "markersize": 3}
        by_step.plot([each["step"] for each in tests], losses, "o-", label=name, **look)
        sent = [each.get("bytes_sent", ring.get(each["step"], 0)) / 1e6 for each in tests]
        label = name if "bytes_sent" in tests[0] else name + ", in a ring"
        by_bytes.plot(sent, losses, "o-", label=label, **look)
    for link, bits in LINKS.items() if efficiency else ():
        for kind, name, style in (("dense", "dense", "s--"), ("topk", "top-k 1 %", "o-")):
            shares = [share(alone, each[kind], bits) for each in efficiency.values()]
            by_ranks.plot(list(efficiency), shares, style, label=f"{name}, {link}", markersize=3)
    by_step.set(xlabel="step", ylabel="test loss", yscale="log")
    by_bytes.set(xlabel="MB sent by a rank", ylabel="test loss", yscale="log", xscale="log")
    by_ranks.set(xlabel="ranks P", ylabel="efficiency E(P)", ylim=(0, 1.05))
    for axes in (by_step, by_bytes, by_ranks):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    main()
