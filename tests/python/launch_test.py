"""Communicators of processes that launchers start."""

import concurrent.futures
import os
import shutil
import socket
import sys

import pytest

import sparcl
from conftest import run_python
from sparcl import _launch, mpi

SUM = """
x = np.zeros(8, np.float32)
x[comm.rank] = comm.rank + 1
got = comm.all_reduce_top_k(x, 1)
assert got.sum() == comm.size * (comm.size + 1) / 2, got
print("rank", comm.rank, "of", comm.size, flush=True)
comm.close()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_together(envs, program):
    with concurrent.futures.ThreadPoolExecutor(len(envs)) as threads:
        return list(threads.map(lambda env: run_python(program, env=env), envs))


def expect_all(runs):
    for rank, run in enumerate(runs):
        assert run.stdout == f"rank {rank} of {len(runs)}\n", run.stderr


def test_torchruns_variables():
    port = str(free_port() - 1)
    envs = [
        {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in range(3)
    ]
    program = "import numpy as np, sparcl\ncomm = sparcl.Comm.from_env(timeout=50)\n" + SUM
    expect_all(run_together(envs, program))


def test_slurms_variables():
    envs = [
        {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_JOB_ID": "77",
            "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost",
            "SPARCL_MASTER_PORT": str(port),
        }
        for port in [free_port()] for rank in range(2)
    ]  # fmt: skip
    program = "import numpy as np, sparcl\ncomm = sparcl.Comm.from_env(timeout=50)\n" + SUM
    expect_all(run_together(envs, program))


def test_a_process_alone_is_one_rank():
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        assert name not in os.environ
    assert sparcl.Comm.from_env().size == 1


def test_first_hosts():
    for text, host in {
        "gpu[07-09,12],login": "gpu07", "node3,node4": "node3", "a": "a", "rack1-[1-4]-ib": "rack1-1-ib",
    }.items():  # fmt: skip
        assert _launch._first_host({"SLURM_STEP_NODELIST": text}, "") == host


def test_ranks_that_are_missing_are_named():
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port() - 1)}
    run = run_python("import sparcl; sparcl.Comm.from_env(timeout=0.5)", env=env)
    assert "TimeoutError: ranks [1] of 2 did not ask rank 0" in run.stderr
    env["RANK"] = "1"
    run = run_python("import sparcl; sparcl.Comm.from_env(timeout=0.5)", env=env)
    assert "did not reach rank 0" in run.stderr and "SPARCL_MASTER_ADDR" in run.stderr
    env["RANK"] = "first"
    assert "RANK is 'first': a number from 0 to 1" in run_python("import sparcl; sparcl.Comm.from_env()", env=env).stderr


def test_a_connection_that_says_nothing_holds_nobody_up():
    place = _launch._Place(0, 2, "127.0.0.1", free_port(), "mine")
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        served = threads.submit(_launch._serve, place, 20)
        silent = []
        for _ in range(3):
            while True:
                try:
                    silent.append(socket.create_connection((place.host, place.port)))
                    break
                except ConnectionRefusedError:
                    pass
        # One that asks and ends before it has the id is still wanted.
        silent[0].sendall(b"sparcl 1\nmine\n2\n1\n")
        silent[0].close()
        assert _launch._ask(place._replace(rank=1), 5) == served.result(timeout=5)
        for each in silent:
            each.close()


def test_mpichs_variables():
    place = _launch.place_of({"PMI_RANK": "1", "PMI_SIZE": "3"})
    assert (place.rank, place.size) == (1, 3)


def test_another_job_is_not_answered():
    place = _launch._Place(0, 2, "127.0.0.1", free_port(), "mine")
    other = place._replace(rank=1, job="other")
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        served = threads.submit(_launch._serve, place, 3)
        with pytest.raises(sparcl.TimeoutError, match="another job answered"):
            _launch._ask(other, 0.5)
        assert _launch._ask(place._replace(rank=1), 2) == served.result()


def mpirun(program, ranks=2):
    import subprocess

    command = [
        "mpirun", "--oversubscribe", "-n", str(ranks), sys.executable, "-c",
        "import numpy as np, sparcl\n" + program,
    ]  # fmt: skip
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


# mpirun may mix the lines of ranks.
def expect_lines(run, ranks):
    assert run.returncode == 0 and run.stdout.count("rank") == ranks, run.stderr


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
class TestMpi:
    def test_mpi4py(self):
        pytest.importorskip("mpi4py", reason="needs mpi4py")
        try:
            mpi.library("Open MPI")
        except sparcl.UnsupportedError as error:
            pytest.skip(str(error))
        program = "from mpi4py import MPI\ncomm = sparcl.Comm.from_mpi(MPI.COMM_WORLD, timeout=50)\n"
        run = mpirun(program + SUM, 3)
        expect_lines(run, 3)

    def test_mpirun_without_mpi4py(self):
        run = mpirun("comm = sparcl.Comm.from_env(timeout=50)\n" + SUM, 2)
        expect_lines(run, 2)


def test_a_process_group_of_torch():
    pytest.importorskip("torch", reason="needs torch")
    port = str(free_port())
    envs = [
        {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in range(2)
    ]
    program = (
        "import numpy as np, sparcl, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\ncomm = sparcl.Comm.from_torch(timeout=50)\n"
    )
    expect_all(run_together(envs, program + SUM))


def test_the_program():
    import subprocess

    from sparcl._program import path_of_program

    if path_of_program() is None:
        pytest.skip("the package was built without the program")
    run = subprocess.run([sys.executable, "-m", "sparcl", "--version"], capture_output=True, text=True)
    assert run.stdout == f"sparcl {sparcl.__version__}\n"
    findings = sparcl.doctor(quiet=True)
    assert {"numpy", "/dev/shm", "transport loopback"} <= {each.name for each in findings}
    assert all(each.text for each in findings)
