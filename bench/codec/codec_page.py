#!/usr/bin/env python3
"""Writes the results page of the codec from the rows of bench_codec --json: codec_page.py ROWS.jsonl... > codec-<date>.md"""
import json
import sys

from codec_goals import Rows, goals, trace_bits

SIZE = [("b/chg", "bits", 3), ("limit", "limit_given_old", 3), ("ratio", "over_limit", 3)]
BLIND = [("b/chg", "bits", 3), ("blind limit", "limit_blind", 3), ("given old", "limit_given_old", 3), ("ratio", "over_limit", 3)]
SPEED = [
    ("encode", "encode_gbs", 1),
    ("of reading both", "encode_of_read_two", 2),
    ("check", "check_gbs", 1),
    ("apply", "apply_gbs", 1),
    ("of its lines", "apply_of_touched", 2),
    ("direct", "unchecked_gbs", 1),
    ("of its lines", "unchecked_of_touched", 2),
    ("one pass", "one_pass_gbs", 1),
    ("hash of encode", "hash_of_encode", 3),
    ("hash of one pass", "hash_of_one_pass", 3),
]
SAME = "Modes that come to the same bytes as the one above are left out."
BRIEF = [("encode", "encode_gbs", 1), ("apply", "apply_gbs", 1), ("one pass", "one_pass_gbs", 1)]


def read(paths):
    about, rows, notes = {}, [], []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if "about" in row:
                    about = row
                elif "note" in row:
                    notes.append(row["note"])
                else:
                    rows.append(row)
    return about, rows, notes


def cell(row, key, digits):
    value = row.get(key)
    return "-" if value is None else f"{value:.{digits}f}"


def distinct(rows):
    """Without the modes of our own that came to the same bytes as the mode before them."""
    kept, last = [], None
    for row in rows:
        ours = row["coder"].startswith("sparcl")
        if ours and last and last[0] == row["input"] and last[1] == row["bytes"]:
            continue
        last = (row["input"], row["bytes"]) if ours else None
        kept.append(row)
    return kept


def table(title, rows, columns, names=("input", "coder")):
    if not rows:
        return
    print(f"\n{title}\n")
    print("| " + " | ".join([*names, *(heading for heading, _, _ in columns)]) + " |")
    print("|---" * (len(names) + len(columns)) + "|")
    last = None
    for row in rows:
        first = [row.get(name, "") for name in names]
        shown = ["" if first[0] == last else first[0], *first[1:]]
        last = first[0]
        print("| " + " | ".join([*shown, *(cell(row, key, digits) for _, key, digits in columns)]) + " |")


HEAD = """# Codec, {date}

Written by `bench/codec/run`, which repeats all of it; what follows from it is in the decision records.
One core of a machine with {machine}, compiler {compiler}, Release, commit {commit}.
Speeds are GB/s of the dense array; medians of processor time. Shares are medians of ratios within one round, against reading
one array, both, or the lines of 64 bytes that change (each read and written back), in that round. All headers are in the sizes.

- encode: diff, coding, state hash. check: the receiver's checks of stream and base (`touched`), nothing written.
- apply: decoding and writing after these. one pass: both at once, block by block. direct: one pass without the base's check.
- hash: the state hash's kernel by itself, of changes that lie in the cache, as they do where a block is coded or applied.
- sparcl: what a broadcast sends. classes: with exponent classes. fewest: with the entropy coder as well, as files are.
- limit, given old: entropy of places and steps given the top eight bits of the old value's magnitude (of bf16: the exponent);
  blind: of both without (clusters: given the chain that drew them). Steps of 32 bits and more are too many to be counted.
- Peers are written from their published layouts, find changes by this library's diff, and write in place."""


def print_goals(rows):
    print("\n## What it must show\n\n| goal | asked | measured | |\n|---|---|---|---|")
    for words, asked, measured, met in goals(rows):
        print(f"| {words} | {asked} | {measured} | {'?' if met is None else 'met' if met else '**missed**'} |")


def print_trace(rows):
    coders = list(dict.fromkeys(r["coder"] for r in rows.of("trace")))
    if not coders:
        return
    print("\n## A real fine-tuning\n\nAll steps together, bits a change:\n\n| coder | b/chg |\n|---|---|")
    for coder in coders:
        print(f"| {coder} | {trace_bits(rows, coder):.3f} |")
    table("Step by step, as a file:", rows.of("trace", coder="sparcl fewest"), BLIND, ("input",))


def main():
    about, all_rows, notes = read(sys.argv[1:])
    rows = Rows(all_rows)
    print(HEAD.format(**{key: about.get(key) for key in ("date", "machine", "compiler", "commit")}))
    print_goals(rows)
    print("\n## Speed")
    table("Independent changes, as a broadcast sends them:", rows.of("speed"), SIZE[:1] + SPEED, ("input", "kernels"))
    words = "Masters in fp32 rounded to bf16, exponent classes; steps N(0, s), or all of one size s:"
    table(words, rows.of("masters"), SIZE + SPEED, ("input", "kernels"))
    print(f"\n## Over the share that changes\n\n![sizes and speeds](codec-{about.get('date')}.svg)")
    table(SAME, distinct([r for r in rows.of("density") if r["coder"] != "dense"]), BLIND + BRIEF)
    print("\n## Clusters and block masks")
    table("Runs of random lengths:", rows.of("clusters"), SIZE + BRIEF, ("input",))
    table("Aligned blocks:", rows.of("blocks"), SIZE + BRIEF, ("input",))
    print_trace(rows)
    print("\n## Other element types")
    table(SAME, distinct(rows.of("types")), [("of dense", "of_dense", 4), *BLIND, *BRIEF])
    print("\n## What others send")
    table(SAME, distinct(rows.of("peers")), [("b/chg", "bits", 2), ("of dense", "of_dense", 4), *BRIEF])
    print("\n## zstd around an update")
    layers = [(f"zstd-{level}", f"zstd_{level}", 4) for level in (1, 3, 19)]
    table("Size after zstd as a share of the size before:", distinct(rows.of("outer")), [("b/chg", "bits", 3), *layers])
    for note in dict.fromkeys(notes):
        print(f"\n{note}")


if __name__ == "__main__":
    main()
