"""Communicators of processes that a launcher has started: who they are, and how they meet."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from ._choices import real
from ._comm import Comm, unique_id
from ._errors import InvalidArgumentError, TimeoutError, UnsupportedError

_ID_BYTES = 128
#: Seconds to wait for the other processes, if no timeout is given.
_PATIENCE = 600.0


class _Place(NamedTuple):
    rank: int
    size: int
    host: str  # of rank 0
    port: int
    job: str  # processes of another job are refused


def from_env(cls: type[Comm], **options: Any) -> Comm:
    place = place_of(os.environ)
    _check_options(cls, options)
    if place.size == 1:
        return cls.local(1)[0]
    given = real(options.get("timeout", 0), "timeout")
    limit = given or float(os.environ.get("SPARCL_TIMEOUT_S") or _PATIENCE)
    ready = _serve(place, limit) if place.rank == 0 else _ask(place, limit)
    return cls.from_id(ready, place.size, place.rank, **options)


# Before the processes wait for each other.
def _check_options(cls: type[Comm], options: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(cls.from_id).parameters][3:]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}: the options are {', '.join(known)}")
    if real(options.get("timeout", 0), "timeout") < 0:
        raise InvalidArgumentError(f"timeout is {options['timeout']}: it is 0 or more seconds")


def from_torch(cls: type[Comm], group: Any, **options: Any) -> Comm:
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise UnsupportedError(
            f"torch cannot be imported ({error}): install it, or use sparcl.Comm.from_env()"
        ) from None
    if not dist.is_initialized():
        raise InvalidArgumentError(
            "torch.distributed has no process group: call init_process_group first, or use "
            "sparcl.Comm.from_env()"
        )
    _check_options(cls, options)
    rank, count = dist.get_rank(group), dist.get_world_size(group)
    if count == 1:
        return cls.local(1)[0]
    ids: list[Any] = [unique_id() if rank == 0 else None]
    root = 0 if group is None else dist.get_global_rank(group, 0)
    dist.broadcast_object_list(ids, src=root, group=group)
    return cls.from_id(ids[0], count, rank, **options)


# --- who we are ---


def place_of(env: Mapping[str, str]) -> _Place:
    """Reads the variables of torchrun, mpirun or Slurm; without them: one rank alone."""
    if ("RANK" in env) != ("WORLD_SIZE" in env):
        there, missing = ("RANK", "WORLD_SIZE") if "RANK" in env else ("WORLD_SIZE", "RANK")
        raise InvalidArgumentError(f"{there} is set, and {missing} is not: set both, or none")
    if "RANK" in env:
        port = _int(env, "MASTER_PORT", 1, 65534, "29500") + 1  # the one itself is torch's
        host = env.get("SPARCL_MASTER_ADDR") or env.get("MASTER_ADDR", "127.0.0.1")
        # Not the count of restarts: agents of several nodes count their own.
        return _place(env, "RANK", "WORLD_SIZE", host, port, env.get("TORCHELASTIC_RUN_ID", ""))
    host = env.get("SPARCL_MASTER_ADDR") or _first_host(env, "127.0.0.1")
    if "OMPI_COMM_WORLD_RANK" in env:
        job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
        names = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
    elif "SLURM_PROCID" in env and "SLURM_STEP_ID" in env:
        job = f"{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}"
        names = "SLURM_PROCID", "SLURM_NTASKS"
    elif "PMI_RANK" in env and "PMI_SIZE" in env:  # mpirun of MPICH and Intel MPI
        job, names = env.get("PMI_ID", "") and "pmi", ("PMI_RANK", "PMI_SIZE")
    else:
        return _Place(0, 1, "", 0, "")
    return _place(env, *names, host, 20000 + _number_of(job) % 20000, job)


def _place(
    env: Mapping[str, str], rank: str, count: str, host: str, port: int, job: str
) -> _Place:
    size = _int(env, count, 1, 1 << 20)
    if "SPARCL_MASTER_PORT" in env:
        port = _int(env, "SPARCL_MASTER_PORT", 1, 65535)
    return _Place(_int(env, rank, 0, size - 1), size, host, port, job)


def _int(env: Mapping[str, str], name: str, least: int, most: int, default: str = "") -> int:
    text = env.get(name, default)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InvalidArgumentError(f"{name} is {text!r}: a number from {least} to {most} is needed")
    return int(text)


def _number_of(job: str) -> int:
    number = 0
    for letter in job.encode():
        number = (number * 131 + letter) % 1_000_003
    return number


def _first_host(env: Mapping[str, str], default: str) -> str:
    """The first of Slurm's nodes: "gpu[07-09,12],login" is gpu07."""
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""
    found = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\])?([^,\[]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else default


# --- how we meet: rank 0 gives the id to each rank of the job ---


def _serve(place: _Place, limit: float) -> bytes:
    made = unique_id()
    deadline = time.monotonic() + limit
    wanted = set(range(1, place.size))
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((place.host, place.port))
        except OSError as error:
            raise InvalidArgumentError(
                f"rank 0 cannot listen on {place.host}:{place.port} ({error.strerror}): set "
                "SPARCL_MASTER_ADDR to this host's address, and SPARCL_MASTER_PORT to a free port, "
                "on all ranks"
            ) from None
        listener.listen(min(place.size, 1024))
        while wanted:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"ranks {sorted(wanted)[:8]} of {place.size} did not ask rank 0 at "
                    f"{place.host}:{place.port} within {limit:g} s: were they started?"
                )
            listener.settimeout(min(left, 0.05))
            try:
                peer, _ = listener.accept()
            except OSError:
                continue
            # Each on a thread: one that says nothing holds nobody up.
            threading.Thread(target=_answer, args=(peer, place, made, wanted), daemon=True).start()
    return made


# A rank is no longer wanted once it has said that it has the id.
def _answer(peer: socket.socket, place: _Place, made: bytes, wanted: set[int]) -> None:
    with peer, contextlib.suppress(OSError, ValueError):
        peer.settimeout(30)
        asked = b""
        while asked.count(b"\n") < 4 and len(asked) < 4096:
            piece = peer.recv(4096)
            if not piece:
                return
            asked += piece
        lines = asked.decode("utf-8", "replace").split("\n")
        if lines[:3] != ["sparcl 1", place.job, str(place.size)]:
            return
        rank = int(lines[3])
        if not 0 < rank < place.size:
            return
        peer.sendall(made)
        if peer.recv(1) == b"+":
            wanted.discard(rank)


def _ask(place: _Place, limit: float) -> bytes:
    deadline = time.monotonic() + limit
    why: Optional[Exception] = None
    while time.monotonic() < deadline:
        try:
            left = max(0.1, deadline - time.monotonic())
            with socket.create_connection((place.host, place.port), timeout=min(left, 5)) as peer:
                peer.settimeout(min(left, 30))
                peer.sendall(f"sparcl 1\n{place.job}\n{place.size}\n{place.rank}\n".encode())
                got = b""
                while len(got) < _ID_BYTES and (piece := peer.recv(_ID_BYTES - len(got))):
                    got += piece
                if len(got) == _ID_BYTES:
                    peer.sendall(b"+")
                    return got
                why = ConnectionError("another job answered")
        except OSError as error:
            why = error
        time.sleep(0.05)
    raise TimeoutError(
        f"rank {place.rank} did not reach rank 0 at {place.host}:{place.port} within {limit:g} s "
        f"({why}): set SPARCL_MASTER_ADDR and SPARCL_MASTER_PORT on all ranks"
    )
