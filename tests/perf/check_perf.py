#!/usr/bin/env python3
"""Runs sparcl-perf under a launcher and checks what it prints: check_perf.py [--brief] LAUNCHER... -- PROGRAM OPTIONS..."""

import json
import subprocess
import sys

KEYS = {
    "op", "algorithm", "ranks", "count", "dtype", "density", "bytes_wire", "bytes_dense", "bytes_bound", "time_us_min",
    "time_us_median", "time_us_p99", "dense_time_us_median", "speedup", "wrong", "mode", "wire", "algo",
}  # fmt: skip


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


# A usage error is told once, by one rank.
def refuse(command, *words):
    done = run(command)
    assert done.returncode == 2, f"exit code {done.returncode} of {command}"
    said = [line for line in (done.stdout + done.stderr).splitlines() if all(word in line for word in words)]
    assert len(said) == 1, f"{words} in:\n{done.stdout}\n{done.stderr}"


def main():
    brief = sys.argv[1] == "--brief"
    split = sys.argv.index("--")
    launcher, program = sys.argv[2 if brief else 1 : split], sys.argv[split + 1 :]
    done = run(launcher + program + ["--json"])
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == 3, done.stdout
    for row in rows:
        assert KEYS <= row.keys(), KEYS - row.keys()
        assert row["wrong"] == 0, row
        assert 0 < row["time_us_min"] <= row["time_us_median"] <= row["time_us_p99"], row
        assert row["bytes_wire"] >= row["bytes_bound"] > 0, row
    if brief:
        return
    table = run(launcher + program)
    assert table.returncode == 0, table.stderr
    assert "#wrong" in table.stdout and str(rows[0]["count"]) in table.stdout, table.stdout
    alone = run(launcher + program + ["--json", "--no-dense"])
    assert alone.returncode == 0, f"exit code {alone.returncode} without the dense calls:\n{alone.stderr}"
    row = json.loads(alone.stdout.splitlines()[-1])
    assert row["dense_time_us_median"] is None and row["speedup"] is None and row["time_us_median"] > 0, row
    table = run(launcher + program + ["--no-dense"])
    assert table.stdout.splitlines()[-1].split()[-5:-1] == ["-"] * 4, table.stdout
    operation = program[program.index("--op") + 1]
    own = {"allreduce_masked": ["--redraw"], "allreduce_sparse": ["--overlap", "1"], "allreduce_topk": ["--mode", "global"]}
    if operation == "aggregate":  # it has one algorithm, and the same options as a sparse sum
        refuse(launcher + program + ["--algo", "chain"], "--algo", operation)
        return
    names = ["auto", "chain" if "broadcast" in operation else "split" if operation == "allreduce_sparse" else "direct"]
    several = run(launcher + program + ["--json", "--no-dense", "--algo", ",".join(names)])
    assert several.returncode == 0, several.stderr
    rows = [json.loads(line) for line in several.stdout.splitlines() if line.startswith("{")]
    assert [row["algo"] for row in rows] == names * 3, several.stdout
    assert all(row["wrong"] == 0 for row in rows) and rows[1]["algorithm"] == names[1], several.stdout
    refuse(launcher + [program[0], "--op", "no such operation"], "--op")
    refuse(launcher + program + ["--algo", "no such algorithm"], "--algo", operation)
    refuse(launcher + program + ["--algo", "gather" if "broadcast" in operation else "chain"], "--algo", operation)
    for other, option in own.items():
        if other != operation and not (operation == "allreduce_topk" and option[0] == "--overlap"):
            refuse(launcher + program + option, option[0], other, operation)
    more = ["--overlap", "0.5"] if operation == "allreduce_topk" else []
    head = run(launcher + program + own.get(operation, []) + more).stdout
    for word in {"allreduce_masked": ["mask"], "allreduce_sparse": ["overlap 1"], "allreduce_topk": ["mode global", "exact", "overlap 0.5"]}.get(operation, []):
        assert word in head.splitlines()[0], head


main()
