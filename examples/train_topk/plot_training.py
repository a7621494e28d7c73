#!/usr/bin/env python3
"""Plots losses over steps, bytes sent and time, of all variants: plot_training.py OUT.svg RUN.json... (train_topk --json)."""
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plots need matplotlib (Debian: apt-get install python3-matplotlib, for /usr/bin/python3)")

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402  (after the choice of the backend)


def label(variant):
    if variant["variant"] == "dense":
        return "dense"
    method = "top-k" if variant["variant"].startswith("topk") else "random mask"
    return f"{method} {100 * variant['density']:g} %, " + ("with feedback" if variant["feedback"] else "without")


def read_merged(paths):
    """One run from files that hold some variants each."""
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    if len({run["run"] for run in runs}) != 1:
        sys.exit("these are runs with different settings: " + "; ".join(run["run"] for run in runs))
    run = runs[0]
    for more in runs[1:]:
        run["variants"] += more["variants"]
        run["steps"] += more["steps"]
    return run


def points(run, name):
    """(step, bytes sent so far, seconds in steps so far, held-out loss) where it was measured."""
    found, total, seconds = [], 0, 0.0
    for row in run["steps"]:
        if row["variant"] != name:
            continue
        total += row["bytes_sent"] or 0
        seconds += row["step_seconds"]
        if "held_out_loss" in row:
            found.append((row["step"], total, seconds, row["held_out_loss"]))
    return found


def main():
    out, paths = sys.argv[1], sys.argv[2:]
    run = read_merged(paths)
    matplotlib.rcParams.update({"font.size": 8, "svg.hashsalt": "sparcl", "svg.fonttype": "none"})
    figure, (by_step, by_bytes, by_time) = pyplot.subplots(1, 3, figsize=(12, 4.2), sharey=True)
    colors = {}
    for variant in run["variants"]:
        name = variant["variant"]
        if name == "mpi":
            continue  # the same as dense
        kind = name.removesuffix(":forget")
        color = "k" if name == "dense" else colors.setdefault(kind, f"C{len(colors)}")
        style = "-" if name == "dense" or variant["feedback"] else "--"
        steps, sent, seconds, losses = zip(*points(run, name))
        by_step.plot(steps, losses, style, color=color, label=label(variant), linewidth=1.2)
        by_bytes.plot([count / 1e6 for count in sent], losses, style, color=color, linewidth=1.2)
        by_time.plot(seconds, losses, style, color=color, linewidth=1.2)
    by_step.set_xlabel("steps")
    by_step.set_ylabel("held-out loss, nats a character")
    by_bytes.set_xlabel("MB that the busiest rank has sent")
    by_bytes.set_xscale("log")
    by_bytes.minorticks_off()
    by_time.set_xlabel("seconds in steps, of the slowest rank")
    losses = [row["held_out_loss"] for row in run["steps"] if "held_out_loss" in row]
    by_step.set_ylim(0.9 * min(losses), 1.02 * run["steps"][0]["held_out_loss"])  # what diverges leaves the plot
    for axes in (by_step, by_bytes, by_time):
        axes.grid(True, which="major", linewidth=0.3)
    figure.legend(loc="lower center", ncol=4)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(out, metadata={"Date": None, "Creator": None})
    print(out)


if __name__ == "__main__":
    main()
