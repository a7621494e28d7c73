#!/usr/bin/env python3
"""Runs sparcl-perf under a launcher and checks what it prints: check_perf.py LAUNCHER... -- PROGRAM OPTIONS..."""

import json
import subprocess
import sys

KEYS = {
    "op", "algorithm", "ranks", "count", "dtype", "density", "bytes_wire", "bytes_dense", "bytes_bound", "time_us_min",
    "time_us_median", "time_us_p99", "dense_time_us_median", "speedup", "wrong",
}  # fmt: skip


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def main():
    split = sys.argv.index("--")
    launcher, program = sys.argv[1:split], sys.argv[split + 1 :]
    done = run(launcher + program + ["--json"])
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == 3, done.stdout
    for row in rows:
        assert KEYS <= row.keys(), KEYS - row.keys()
        assert row["wrong"] == 0, row
        assert 0 < row["time_us_min"] <= row["time_us_median"] <= row["time_us_p99"], row
        assert row["bytes_wire"] >= row["bytes_bound"] > 0, row
    table = run(launcher + program)
    assert table.returncode == 0, table.stderr
    assert "#wrong" in table.stdout and str(rows[0]["count"]) in table.stdout, table.stdout
    alone = run(launcher + program + ["--json", "--no-dense"])
    assert alone.returncode == 0, f"exit code {alone.returncode} without the dense calls:\n{alone.stderr}"
    row = json.loads(alone.stdout.splitlines()[-1])
    assert row["dense_time_us_median"] == 0 and row["time_us_median"] > 0, row
    refused = run(launcher + [program[0], "--op", "no such operation"])
    assert refused.returncode == 2, f"exit code {refused.returncode} of a bad option"


main()
