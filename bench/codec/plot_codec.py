#!/usr/bin/env python3
"""Plots sizes and speeds over the share that changes: plot_codec.py OUT.svg ROWS.jsonl (suite density of bench_codec --json)."""
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plots need matplotlib (Debian: apt-get install python3-matplotlib, for /usr/bin/python3)")

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402  (after the choice of the backend)

KINDS = {"iid": "independent changes", "masters": "masters in fp32, normal steps"}
CODERS = {
    "sparcl": ("sparcl", "C0", "o-"),
    "sparcl classes": ("sparcl, exponent classes", "C2", "o-"),
    "sparcl fewest": ("sparcl, fewest bytes", "C4", "o-"),
    "u16 gaps + xor, zstd-1": ("u16 gaps + xor, zstd-1", "C1", "s--"),
    "u16 gaps + values, zstd-1": ("u16 gaps + values, zstd-1", "C5", "s--"),
    "int32 + values, zstd-3": ("int32 + values, zstd-3", "C3", "s--"),
    "dense": ("dense", "0.6", ":"),
}


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if "coder" in row]


def curve(rows, kind, coder, key):
    points = sorted((r["density"], r[key]) for r in rows if r["kind"] == kind and r["coder"] == coder and key in r)
    return [p[0] for p in points], [p[1] for p in points]


def draw(axes, rows, kind, key):
    for coder, (label, color, style) in CODERS.items():
        x, y = curve(rows, kind, coder, key)
        if x:
            axes.plot(x, y, style, color=color, label=label, markersize=3, linewidth=1.2)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.grid(True, which="major", linewidth=0.3)
    axes.set_xlabel("share of elements that change")


def main():
    out, path = sys.argv[1], sys.argv[2]
    rows = read(path)
    matplotlib.rcParams.update({"font.size": 8, "svg.hashsalt": "sparcl", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(3, 2, figsize=(10, 11))
    for column, (kind, title) in enumerate(KINDS.items()):
        top, encode, apply = axes[:, column]
        draw(top, rows, kind, "bits")
        for key, label, style in (("limit_blind", "entropy", "k-"), ("limit_given_old", "entropy given the old exponent", "k--")):
            x, y = curve(rows, kind, "sparcl", key)
            if kind != "iid" or key == "limit_blind":
                top.plot(x, y, style, label=label, linewidth=0.9)
        top.set_title(title)
        top.set_ylim(0, 48)
        top.set_ylabel("bits a change, all headers in")
        draw(encode, rows, kind, "encode_gbs")
        encode.plot(*curve(rows, kind, "sparcl", "read_two_gbs"), "k-", label="reading both arrays", linewidth=0.9)
        encode.set_ylabel("encode (with diff and hash), GB/s of the dense model")
        encode.set_ylim(0, 26)
        own = [dict(row, apply_gbs=row.get("one_pass_gbs", row.get("apply_gbs", 0))) for row in rows]
        draw(apply, own, kind, "apply_gbs")
        apply.set_yscale("log")
        apply.minorticks_off()
        apply.set_ylabel("apply in place (sparcl: with all checks), GB/s")
    labels = {}
    for each in figure.axes:
        labels.update({label: handle for handle, label in zip(*each.get_legend_handles_labels())})
    figure.legend(labels.values(), labels.keys(), loc="lower center", ncol=4, fontsize=8)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(out, metadata={"Date": None, "Creator": None})
    print(out)


if __name__ == "__main__":
    main()
