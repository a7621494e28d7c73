"""DistributedDataParallel and FSDP2 on ranks that are processes, over gloo: torch_programs.py."""

import os
import re
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_GLOO = torch.distributed.is_available() and hasattr(torch.distributed, "ProcessGroupGloo")


def run_processes(count, arguments, folder=HERE, timeout=100, **env):
    """Runs a Python program on ranks; the output of each rank. Fails if one of them does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
              "OMP_NUM_THREADS": "1", "UCX_TLS": "tcp,self", **env}  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(count)
    ]  # fmt: skip
    try:
        texts = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * count, "\n".join(texts)
    return texts


@pytest.mark.skipif(not HAS_GLOO, reason="this PyTorch has no gloo")
def test_ddp_rebuilds_buckets_resumes_and_ends_with_sparcls_error_when_a_rank_dies():
    texts = run_processes(2, ["torch_programs.py", "ddp"])
    assert "ended with sparcl's error" in texts[0]


def version():
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


@pytest.mark.skipif(not HAS_GLOO, reason="this PyTorch has no gloo")
@pytest.mark.skipif(
    version() < (2, 9),
    reason=f"FSDP2 over gloo is tested with PyTorch 2.9, this is {torch.__version__}",
)
def test_fsdp2_averages_its_shards_over_replicas_and_dtensors_are_slices():
    run_processes(4, ["torch_programs.py", "fsdp"])
