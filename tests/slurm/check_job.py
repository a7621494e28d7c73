#!/usr/bin/env python3
"""Submits a script of slurm/ and checks what it leaves: check_job.py suite|training FOLDER SBATCH_SCRIPT STARTER PROGRAM

STARTER is srun's --mpi=TYPE. Each is submitted twice: the second time with what must fail.
"""

import json
import os
import shutil
import subprocess
import sys

RANKS, NODES = 3, 2
OPERATIONS = ["allreduce_masked", "broadcast_delta", "broadcast_sparse"]
SIZES = [4096, 16384]
STEPS, FINETUNE = 3, 2


def check(condition, text):
    if not condition:
        sys.exit(f"check_job: {text}")


def submit(folder, script, arguments):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    command = ["sbatch", "--wait", "--time=5", f"--ntasks={RANKS}", f"--nodes={NODES}", f"--output={folder}/job.txt", script]
    print("$", *command, *arguments, flush=True)
    code = subprocess.run([*command, *arguments], timeout=200).returncode
    with open(f"{folder}/job.txt", encoding="utf-8") as file:
        said = file.read()
    print(said, flush=True)
    return code, said


def lines(folder):
    with open(f"{folder}/out/results.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_machine(row):
    check(row["ranks"] == RANKS and row["nodes"] == NODES and row["job"] > 0, f"the job is told wrongly: {row}")


def suite(folder, script, mpi, program):
    options = ["--perf", program, "--out", f"{folder}/out", "--mpi", mpi]
    sizes = ["--densities", "0.01,0.5", "--min", "4K", "--max", "16K"]
    code, said = submit(folder, script, [*options, *sizes, "--", "--iters", "3", "--warmup", "1"])
    check(code == 0, f"exit code {code}: {text(f'{folder}/out/errors.txt')}")
    rows = lines(folder)
    found = [(row["op"], row["density"], row["bytes_dense"]) for row in rows]
    check(found == [(op, d, size) for op in OPERATIONS for d in (0.01, 0.5) for size in SIZES], f"other rows: {found}")
    for row in rows:
        check_machine(row)
        check(row["wrong"] == 0 and row["iterations"] == 3 and row["time_us_median"] > 0, f"a wrong row: {row}")
    table = text(f"{folder}/out/table.txt")
    check(table in said and len(table.splitlines()) == len(rows) + 1, f"another table: {table}")

    code, said = submit(folder, script, [*options, *sizes, "--ops", "nonsense,broadcast_delta", "--", "--iters", "3"])
    check(code == 1 and "failed: nonsense" in said, f"a failure is not told: exit code {code}")
    check(len(lines(folder)) == 2 * len(SIZES), "what comes after a failure was not run")


def training(folder, script, mpi, program):
    options = ["--out", f"{folder}/out", "--mpi", mpi, program, "--model-size", "tiny", "--batch", "2"]
    code, said = submit(folder, script, [*options, "--steps", str(STEPS), "--finetune-steps", str(FINETUNE)])
    check(code == 0, f"exit code {code}: {text(f'{folder}/out/errors.txt')}")
    rows = lines(folder)
    check([row["step"] for row in rows] == list(range(STEPS + FINETUNE + 1)), f"other steps: {rows}")
    for row in rows:
        check_machine(row)
        check(row["bytes_dense"] > 0 and row["held_out_loss"] > 0, f"a wrong row: {row}")
    check(text(f"{folder}/out/table.txt") in said and "held-out" in said, "no table")

    code, said = submit(folder, script, [*options, "--steps", "no number"])
    check(code == 2 and "--steps" in text(f"{folder}/out/errors.txt") + said, f"the program's exit code is lost: {code}")


def main():
    what, folder, script, starter, program = sys.argv[1:]
    {"suite": suite, "training": training}[what](folder, script, starter.removeprefix("--mpi="), program)
    for wrong in (["--nonsense"], ["--out"]):
        alone = subprocess.run([script, *wrong], capture_output=True, text=True, timeout=60)
        check(alone.returncode == 2 and wrong[0] in alone.stderr, f"{wrong}: {alone}")
    helped = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60).stdout
    check("sbatch --nodes=2" in helped and "Exit code:" in helped and "pipefail" not in helped, helped)
    print("ok")


if __name__ == "__main__":
    main()
