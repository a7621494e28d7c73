#!/usr/bin/env python3
"""An elastic training while processes are killed: kill_run.py PROGRAM [--minutes 10] [--every 30] [--workers 4]

PROGRAM is examples/elastic_training. First the same number of rounds without kills. Then one process, a worker or the aggregator, is
killed in each period and started again. Afterwards: every process that held a version held the same bytes, and the loss is near
that of the undisturbed run. Prints a table and JSON.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

VERSION = re.compile(r"version (\d+)(?: of (\d+) contributions, loss ([0-9.]+))?, hash ([0-9a-f]+)")


class Run:
    def __init__(self, program, folder, rounds, workers, pause, port, deadline):
        self.program, self.folder, self.rounds, self.pause, self.deadline = program, folder, rounds, pause, deadline
        self.address = f"127.0.0.1:{port}"
        os.makedirs(folder, exist_ok=True)
        self.lives = 0
        self.root = self.start_root()
        self.workers = {seed: self.start_worker(seed) for seed in range(1, workers + 1)}

    def start(self, *arguments):
        self.lives += 1
        out = open(os.path.join(self.folder, f"{arguments[0]}.{self.lives}"), "w")
        return subprocess.Popen([self.program, *arguments, "--rounds", str(self.rounds)], stdout=out, stderr=subprocess.STDOUT)

    def start_root(self):
        return self.start("root", "--listen", self.address, "--folder", os.path.join(self.folder, "rounds"),
                          "--deadline", str(self.deadline))

    def start_worker(self, seed):
        return self.start("worker", "--connect", self.address, "--seed", str(seed), "--pause", str(self.pause))

    def kill_one(self, draw):
        """A worker, or in one of four cases the aggregator; it is started again at once."""
        if draw.random() < 0.25:
            self.root.send_signal(signal.SIGKILL)
            self.root.wait()
            self.root = self.start_root()
            return "aggregator"
        seed = draw.choice(sorted(self.workers))
        self.workers[seed].send_signal(signal.SIGKILL)
        self.workers[seed].wait()
        self.workers[seed] = self.start_worker(seed)
        return f"worker {seed}"

    def wait(self, seconds):
        try:
            self.root.wait(seconds)
            for worker in self.workers.values():
                worker.wait(30)
        finally:
            for process in [self.root, *self.workers.values()]:
                process.kill()

    def seen(self):
        """hash and loss by version, and what differs."""
        hashes, losses, faults = {}, {}, []
        for name in sorted(os.listdir(self.folder)):
            path = os.path.join(self.folder, name)
            if os.path.isdir(path):
                continue
            for line in open(path):
                found = VERSION.match(line)
                if not found:
                    continue
                version, loss, digest = int(found[1]), found[3], found[4]
                if hashes.setdefault(version, digest) != digest:
                    faults.append(f"version {version} has two hashes: {name}")
                if loss:
                    losses[version] = float(loss)
        return hashes, losses, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=30, help="seconds between two kills")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds of a worker's round")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rounds = max(int(arguments.minutes * 60 / (arguments.pause + 0.1)), 10)
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        calm = Run(arguments.program, os.path.join(folder, "calm"), rounds, arguments.workers, 0, 7641, 5)
        calm.wait(600)
        disturbed = Run(arguments.program, os.path.join(folder, "disturbed"), rounds, arguments.workers, arguments.pause, 7642, 5)
        kills, began = [], time.monotonic()
        while disturbed.root.poll() is None and time.monotonic() - began < 60 * arguments.minutes:
            try:
                disturbed.root.wait(arguments.every)
            except subprocess.TimeoutExpired:
                kills.append(disturbed.kill_one(draw))
        disturbed.wait(120 + rounds * (arguments.pause + 1))
        (_, calm_losses, _), (hashes, losses, faults) = calm.seen(), disturbed.seen()
    last = rounds + 1
    result = {"rounds": rounds, "kills": len(kills), "aggregator_kills": kills.count("aggregator"), "versions": len(hashes),
              "loss_calm": calm_losses.get(last), "loss_disturbed": losses.get(last), "faults": faults}
    ended = last in losses and last in calm_losses
    result["loss_ratio"] = losses[last] / calm_losses[last] if ended else None
    print(json.dumps(result))
    return 0 if ended and not faults else 1


sys.exit(main())
