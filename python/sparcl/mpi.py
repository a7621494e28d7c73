"""Communicators over mpi4py. MPI is found when the first one is made."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from ._errors import InvalidArgumentError, UnsupportedError

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def init(comm: Any, config: _core.Config) -> _core.Comm:
    """Makes the C object of a communicator of mpi4py."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise UnsupportedError(
            f"mpi4py cannot be imported ({error}): install it with the MPI of this machine"
        ) from None
    if not isinstance(comm, MPI.Comm):
        raise InvalidArgumentError(
            f"comm is a {type(comm).__name__}: pass a communicator of mpi4py, such as "
            "MPI.COMM_WORLD"
        )
    family = family_of(MPI.Get_library_version())
    handle_bytes = MPI._sizeof(MPI.Comm)
    return _core.comm_from_mpi(
        library(family), MPI._addressof(comm), handle_bytes, family, config
    )


def family_of(version: str) -> str:
    """ "Open MPI" or "MPICH", of what MPI says of itself. Intel's MPI and MVAPICH2 are MPICH's."""
    if version.startswith("Open MPI"):
        return "Open MPI"
    if any(word in version for word in ("MPICH", "Intel", "MVAPICH")):
        return "MPICH"
    return ""


def library(family: str) -> str:
    """Path of sparcl's library for an MPI."""
    name = "libsparcl_mpi_" + family.lower().replace(" ", "") + ".so"
    for path in (os.environ.get("SPARCL_MPI_LIBRARY"), os.path.join(_FOLDER, "lib", name)):
        if path and os.path.exists(path):
            return path
    raise UnsupportedError(
        f"this package has no library for {family or 'this MPI'}: install the package where "
        "mpicc of that MPI is found, or name libsparcl_mpi.so by SPARCL_MPI_LIBRARY"
    )
