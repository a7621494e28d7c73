"""Ranks as threads, and the pieces that several tests use."""

import concurrent.futures
import os
import subprocess
import sys

import pytest

import sparcl


def run_ranks(count, work, **options):
    """work(comm) on a thread of each rank; their results, or the first exception."""
    comms = sparcl.Comm.local(count)
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return [each.result(60) for each in [threads.submit(work, comm) for comm in comms]]


@pytest.fixture
def alone():
    """A communicator of one rank."""
    comm = sparcl.Comm.local(1)[0]
    yield comm
    comm.close()


def run_python(program, *arguments, timeout=60, **options):
    """Runs a program, a text or a file, as a process of its own, with the package."""
    what = ["-c", program] if isinstance(program, str) else [program]
    package = os.path.dirname(os.path.dirname(os.path.abspath(sparcl.__file__)))
    env = {**os.environ, "PYTHONPATH": package, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, *what, *arguments], capture_output=True, text=True,
        timeout=timeout, env=env, **options,
    )  # fmt: skip
