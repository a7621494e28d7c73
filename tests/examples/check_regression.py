#!/usr/bin/env python3
"""check_regression.py RANKS -- COMMAND...: kokkos_regression finds the weights by all gradients and by the largest 1 %, with a
tenth of the bytes."""

import re
import subprocess
import sys


def main():
    ranks, command = int(sys.argv[1]), sys.argv[3:]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    print(done.stdout, end="")
    if done.returncode != 0 or f", {ranks} ranks" not in done.stdout:
        sys.exit(f"check_regression: exit code {done.returncode}")
    rows = dict(re.findall(r"^(all|largest 1 % with feedback) +(.+)$", done.stdout, re.M))
    error, sent = {}, {}
    for name, figures in rows.items():
        error[name], sent[name] = (float(figure.rstrip("%")) for figure in figures.split())
    if max(error.values()) > 2:
        sys.exit("check_regression: the weights were not found")
    if sent["largest 1 % with feedback"] * 10 > sent["all"]:
        sys.exit("check_regression: a sparse step sends more than a tenth of a dense one")


if __name__ == "__main__":
    main()
