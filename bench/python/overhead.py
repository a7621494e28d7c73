#!/usr/bin/env python3
"""What a call from Python costs over the same call from C, in pairs within one process.

PYTHONPATH=build/release/python bench/python/overhead.py [--rounds N]
"""

import argparse
import ctypes
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import sparcl

HERE = pathlib.Path(__file__).resolve().parent


def c_calls(folder):
    """Compiles calls.c against the library that the package uses."""
    with open("/proc/self/maps") as maps:
        library = next(line.split()[-1] for line in maps if "libsparcl.so" in line)
    path = pathlib.Path(folder) / "calls.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", f"-I{HERE.parents[1] / 'include'}", HERE / "calls.c",
         "-o", path, library, "-pthread"], check=True,
    )  # fmt: skip
    calls = ctypes.CDLL(str(path))
    for each in (calls.seconds_of_top_k, calls.seconds_of_broadcast):
        each.restype = ctypes.c_double
    return calls


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def top_k(calls, rounds):
    x, out = np.ones(100, np.float32), np.empty(100, np.float32)
    comm = sparcl.Comm.local(1)[0]
    count = 2000
    pairs = []
    for _ in range(rounds):
        of_c = calls.seconds_of_top_k(pointer(x), pointer(out), ctypes.c_size_t(100), ctypes.c_size_t(1), count)
        begin = time.perf_counter()
        for _ in range(count):
            comm.all_reduce_top_k(x, 1, out=out)
        pairs.append(((time.perf_counter() - begin) / count, of_c))
    overhead = statistics.median(python - c for python, c in pairs)
    of_c = statistics.median(c for _, c in pairs)
    print(f"top-k of 100 elements, one rank: C {of_c * 1e6:.2f} us, Python {overhead * 1e6:+.2f} us")


def broadcast(calls, rounds):
    count = (64 << 20) // 4
    base = np.random.default_rng(1).normal(size=count).astype(np.float32)
    new = base.copy()
    new[::100] += 1
    weights = np.empty((2, count), np.float32)

    def reset():
        weights[0], weights[1] = new, base

    # From the first call to the end of the last one: to start a thread of Python takes half a millisecond.
    def of_python():
        comms = sparcl.Comm.local(2)
        both, begins, ends = threading.Barrier(2), [0.0, 0.0], [0.0, 0.0]

        def work(rank, *arrays):
            both.wait()
            begins[rank] = time.perf_counter()
            comms[rank].broadcast_delta(*arrays)
            ends[rank] = time.perf_counter()

        other = threading.Thread(target=work, args=(1, weights[1]))
        other.start()
        work(0, weights[0], base)
        other.join()
        return max(ends) - min(begins)

    def of_c():
        return calls.seconds_of_broadcast(pointer(weights), pointer(base), ctypes.c_size_t(count))

    ratios, faults = [], {of_c: [], of_python: []}
    for i in range(rounds):
        seconds = {}
        for work in (of_c, of_python) if i % 2 else (of_python, of_c):
            reset()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            seconds[work] = work()
            faults[work].append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
            assert np.array_equal(weights[1], new)
        ratios.append(seconds[of_python] / seconds[of_c])
    print(
        f"64 MiB, 1 % changed, two ranks: Python / C {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}); page faults "
        f"{statistics.median(faults[of_python]):.0f} and {statistics.median(faults[of_c]):.0f}"
    )


# Without returning memory to the system between calls, which takes longer than the call of 100 elements.
def with_kept_memory():
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        kept = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **kept})


def main():
    with_kept_memory()
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=31)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        calls = c_calls(folder)
        top_k(calls, rounds)
        broadcast(calls, rounds)


if __name__ == "__main__":
    main()
