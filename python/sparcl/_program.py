"""The program `sparcl`, and what this machine lacks."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional


class Finding(NamedTuple):
    """What :func:`doctor` has looked at.

    Attributes:
        name: of the thing.
        ok: whether it is usable.
        text: what it is, or why it is not usable.
        fix: what to do; "" if nothing.
    """

    name: str
    ok: bool
    text: str
    fix: str


def path_of_program() -> Optional[str]:
    """SPARCL_PROGRAM, the one of this package, or one in PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sparcl")
    for path in (os.environ.get("SPARCL_PROGRAM"), own, shutil.which("sparcl")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def doctor(*, quiet: bool = False) -> list[Finding]:
    """Says what sparcl can use on this machine, and what to do about what it cannot use.

    Args:
        quiet: do not print.

    Returns:
        All findings. Those that are not ok keep only that part from working.
    """
    findings = [*_python(), *_limits(), *_library()]
    if not quiet:
        for each in findings:
            print(f"{'ok  ' if each.ok else 'no  '}{each.name}: {each.text}")
            if each.fix:
                print(f"      {each.fix}")
    return findings


def _python() -> Iterator[Finding]:
    from . import __version__, _core

    yield Finding("sparcl", True, f"{__version__}, {_core.__file__}", "")
    for name, use, fix in (
        ("numpy", "arrays", "pip install numpy"),
        ("ml_dtypes", "bfloat16 and float8 of NumPy", "pip install ml_dtypes"),
        ("torch", "sparcl.torch and sparcl.engines", "pip install torch"),
        ("mpi4py", "sparcl.Comm.from_mpi", "pip install mpi4py, with the MPI of this machine"),
    ):
        try:
            module = __import__(name)
        except Exception as error:  # a broken package is a finding
            yield Finding(name, False, f"{use}: {error}", fix)
        else:
            yield Finding(name, True, f"{getattr(module, '__version__', '')}, for {use}", "")
    if "mpi4py" in sys.modules:
        yield _mpi()


def _mpi() -> Finding:
    from ._errors import UnsupportedError
    from .mpi import family_of, library

    import mpi4py

    # MPI itself is not started: the name is that of the library that mpi4py was built with.
    text = " ".join(str(value) for value in mpi4py.get_config().values())
    family = "MPICH" if "mpich" in text.lower() else "Open MPI"
    try:
        return Finding("MPI", True, f"{family}: {library(family_of(family))}", "")
    except UnsupportedError as error:
        return Finding("MPI", False, str(error), "install sparcl where that MPI's mpicc is found")


def _limits() -> Iterator[Finding]:
    try:
        shm = os.statvfs("/dev/shm")
        free = shm.f_bavail * shm.f_frsize
    except OSError as error:
        yield Finding("/dev/shm", False, str(error), "mount a tmpfs at /dev/shm")
    else:
        enough = free >= 64 << 20
        fix = "" if enough else "give the container more: docker run --shm-size=1g"
        yield Finding("/dev/shm", enough, f"{free / 1e6:.0f} MB are free", fix)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= 1024
    fix = "" if enough else "ulimit -n 4096"
    yield Finding("open files", enough, f"{soft} at once, one for each peer", fix)


def _library() -> Iterator[Finding]:
    program = path_of_program()
    if program is None:
        text = "this package was built without the program"
        yield Finding("program", False, text, "install sparcl's tools, or set SPARCL_PROGRAM")
        return
    from ._words import in_python

    run = subprocess.run([program, "info", "--json"], capture_output=True, text=True, timeout=60)
    try:  # also with a wrong setting, which is an error of the program
        info: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        yield Finding("program", False, run.stderr.strip(), "")
        return
    for kind in ("transports", "kernels"):
        for row in info[kind]:
            yield Finding(f"{kind[:-1]} {row['name']}", row["usable"], in_python(row["reason"]), "")
    for row in info["settings"]:
        if not row["valid"]:
            text = f"'{row['value']}' is not {row['accepts']}"
            yield Finding(row["environment"], False, text, f"unset {row['environment']}")
