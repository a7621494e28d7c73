#!/usr/bin/env python3
"""Runs train_topk briefly and checks what it leaves: check_topk.py WORK RANKS mpi|threads COMMAND...

With threads, where steps cost little, also: a second run repeats the first but for its times, and feedback helps.
"""

import json
import os
import subprocess
import sys

STEPS = {"threads": 120, "mpi": 30}
NAMES = {
    "threads": ["mpi", "dense", "topk:0.01", "topk:0.002", "topk:0.002:forget", "mask:0.05:forget"],
    "mpi": ["mpi", "dense", "topk:0.01", "mask:0.05"],
}


def check(condition, text):
    if not condition:
        sys.exit(f"check_topk: {text}")


def run(command, steps, names, path):
    command = [*command, "--steps", str(steps), "--model-size", "tiny", "--batch", "2", "--variants", *names, "--json", path]
    print("$", *command, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    check(done.returncode == 0, f"exit code {done.returncode}")
    check("\r" not in done.stdout and "\033" not in done.stdout, "progress was written although this is no terminal")
    with open(path, encoding="utf-8") as file:
        return json.load(file), done.stdout


def check_figures(result, ranks, steps, names):
    variants = {variant["variant"]: variant for variant in result["variants"]}
    check(list(variants) == names, f"other variants: {list(variants)}")
    check(result["ranks"] == ranks and result["equal"] is True, "the ranks hold different weights")
    check([(row["variant"], row["step"]) for row in result["steps"]] == [(n, s) for n in names for s in range(1, steps + 1)], "other steps")
    for name, variant in variants.items():
        losses = [row["loss"] for row in result["steps"] if row["variant"] == name]
        check(variant["loss"] < losses[0] - 0.1, f"{name}: the loss fell from {losses[0]} to {variant['loss']} only")
        check(variant["held_out_loss"] < losses[0], f"{name}: held-out {variant['held_out_loss']}")

    elements = result["elements"]
    sent = {name: variant["bytes_sent"] for name, variant in variants.items()}
    if "mpi" in names:
        check(sent.pop("mpi") is None, "bytes are told that nobody measured")
        # Two ways to sum the same: they differ by rounding only.
        check(abs(variants["mpi"]["loss"] / variants["dense"]["loss"] - 1) < 0.02, "MPI's sums are others")
    dense = 2 * (ranks - 1) / ranks * 4 * elements
    check(dense <= sent["dense"] < 1.05 * dense, f"dense: {sent['dense']} bytes, not {dense}")
    values = 0.05 * 4 * elements
    for name in [name for name in sent if name.startswith("mask")]:
        # By algorithm owner, or direct, which is quicker for so few.
        least, most = sorted((2 * (ranks - 1) / ranks * values, (ranks - 1) * values))
        check(0.98 * least <= sent[name] < 1.05 * most, f"{name}: {sent[name]} bytes for values of {values}")
    # A place takes 16 bits at most and a value 32: of one rank's entries, to each of the others, up to the union of all.
    for name in [name for name in sent if name.startswith("topk")]:
        entries = float(name.split(":")[1]) * elements
        check(4 * entries < sent[name] < (2 + 8 * ranks) * entries * ranks, f"{name}: {sent[name]} bytes for {entries} entries a rank")
        check(sent[name] < sent["dense"] / 4, f"{name}: {sent[name]} bytes, dense {sent['dense']}")
    selected = [row["elements"] for row in result["steps"] if row["variant"] == "topk:0.01"][-1]
    check(0.0099 * elements <= selected <= 0.0101 * elements * ranks, f"{selected} elements of {elements} were exchanged")


def check_feedback(result):
    loss = {variant["variant"]: variant["loss"] for variant in result["variants"]}
    check(loss["dense"] < loss["topk:0.01"] < loss["topk:0.002:forget"], f"what is left out costs nothing: {loss}")
    check(loss["topk:0.002"] < loss["topk:0.002:forget"] - 0.05, f"feedback does not help: {loss}")


def check_repeats(command, result, path):
    """Of two variants, which must not depend on what was trained before."""
    names = ["topk:0.002", "mask:0.05:forget"]
    again, _ = run(command, STEPS["threads"], names, path)
    before = [(row["loss"], row["bytes_sent"]) for row in result["steps"] if row["variant"] in names]
    check([(row["loss"], row["bytes_sent"]) for row in again["steps"]] == before, "the second run with the same seed went otherwise")


def main():
    work, ranks, way, command = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    os.makedirs(work, exist_ok=True)
    names = NAMES[way]
    result, output = run(command, STEPS[way], names, f"{work}/first.json")
    check_figures(result, ranks, STEPS[way], names if way == "mpi" else names[1:])
    check(("left out: the ranks are not MPI's" in output) == (way == "threads"), "it is not said that MPI was left out")
    for variant in result["variants"]:
        check(f"{variant['held_out_loss']:.4f}" in output, f"the table does not show {variant['variant']}")
    if way == "threads":
        check_feedback(result)
        check_repeats(command, result, f"{work}/second.json")
    print("ok")


if __name__ == "__main__":
    main()
