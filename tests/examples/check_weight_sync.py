#!/usr/bin/env python3
"""Runs rl_weight_sync briefly and checks what it says: check_weight_sync.py WORK WORKERS COMMAND...

Then once more: its trainer is killed, and its workers must end with it.
"""

import json
import os
import signal
import subprocess
import sys
import time

STEPS = 36


def check(condition, text):
    if not condition:
        sys.exit(f"check_weight_sync: {text}")


def run(command, work):
    os.makedirs(work, exist_ok=True)
    command = [*command, "--steps", str(STEPS), "--json", f"{work}/run.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    check(done.returncode == 0, f"exit code {done.returncode}")
    check("\r" not in done.stdout and "\033" not in done.stdout, "progress was written although this is no terminal")
    with open(f"{work}/run.json", encoding="utf-8") as file:
        return json.load(file), done.stdout


def check_figures(result, output, workers):
    steps = result["each_step"]
    check([step["step"] for step in steps] == list(range(1, STEPS + 1)), "steps are missing")
    check(result["steps"] == STEPS and result["versions"] == STEPS + 1, "not one version a step, and the first")
    check(result["workers"] == workers == result["holding"], f"{result['holding']} of {workers} workers hold the last version")
    check(result["reward_last"] > result["reward_first"], "the reward did not rise")
    check(all(0 < step["reward"] < 1 for step in steps), "a reward is no share")
    check(0 < result["changed_share"] < 1, f"{result['changed_share']} of the weights changed")
    check(0 < result["update_bytes"] < result["dense_bytes"] == 2 * result["elements"], "updates are not smaller than the weights")
    # All but one from the start, one joins, one comes back.
    check(len(result["join_seconds"]) == workers + 1, f"{len(result['join_seconds'])} joined")
    check(min(step["workers"] for step in steps) == max(1, workers - 1), "nobody was away")
    check(result["pauses"] >= STEPS // 2 and result["pause_p99_seconds"] >= result["pause_median_seconds"] > 0, "pauses are missing")
    check("is killed" in output, "nobody was killed")


def children_of(process):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == process and state != "Z":
            found.append(int(name))
    return found


def is_running(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, text):
    end = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < end, text)
        time.sleep(0.02)


def check_workers_end_with_trainer(command):
    trainer = subprocess.Popen([*command, "--steps", "1000000"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: children_of(trainer.pid), "no worker was started")
        workers = children_of(trainer.pid)
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.wait(timeout=60)
    wait_until(lambda: not any(is_running(worker) for worker in workers), "workers outlive their trainer")


def main():
    work, workers, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    command = [*command, "--workers", str(workers)]
    result, output = run(command, work)
    check_figures(result, output, workers)
    check_workers_end_with_trainer(command)
    print("ok")


if __name__ == "__main__":
    main()
