#!/usr/bin/env python3
"""Plots losses over steps and over bytes sent, of all variants: plot_training.py OUT.svg RUN.json (train_topk --json)."""
import json
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402  (after the choice of the backend)


def label(variant):
    if variant["variant"] == "dense":
        return "dense"
    method = "top-k" if variant["variant"].startswith("topk") else "random mask"
    return f"{method} {100 * variant['density']:g} %, " + ("with feedback" if variant["feedback"] else "without")


def points(run, name):
    """(step, bytes sent so far, held-out loss) where it was measured."""
    found, total = [], 0
    for row in run["steps"]:
        if row["variant"] != name:
            continue
        total += row["bytes_sent"] or 0
        if "held_out_loss" in row:
            found.append((row["step"], total, row["held_out_loss"]))
    return found


def main():
    out, path = sys.argv[1], sys.argv[2]
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    matplotlib.rcParams.update({"font.size": 8, "svg.hashsalt": "sparcl", "svg.fonttype": "none"})
    figure, (by_step, by_bytes) = pyplot.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    colors = {}
    for variant in run["variants"]:
        name = variant["variant"]
        if name == "mpi":
            continue  # the same as dense
        kind = name.removesuffix(":forget")
        color = "k" if name == "dense" else colors.setdefault(kind, f"C{len(colors)}")
        style = "-" if name == "dense" or variant["feedback"] else "--"
        steps, sent, losses = zip(*points(run, name))
        by_step.plot(steps, losses, style, color=color, label=label(variant), linewidth=1.2)
        by_bytes.plot([count / 1e6 for count in sent], losses, style, color=color, linewidth=1.2)
    by_step.set_xlabel("steps")
    by_step.set_ylabel("held-out loss, nats a character")
    by_bytes.set_xlabel("MB that the busiest rank has sent")
    by_bytes.set_xscale("log")
    by_bytes.minorticks_off()
    for axes in (by_step, by_bytes):
        axes.grid(True, which="major", linewidth=0.3)
    figure.legend(loc="lower center", ncol=4)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(out, metadata={"Date": None, "Creator": None})
    print(out)


if __name__ == "__main__":
    main()
