"""Exceptions: one for each result code of the C library."""

from __future__ import annotations

import builtins

from ._words import in_python


class Error(Exception):
    """A call failed. The text says what failed and where, why, and what to do.

    Attributes:
        code: the number of the C library's result (``sparclResult_t``).
    """

    code = 0


class UnhandledCudaError(Error):
    """CUDA returned an error."""

    code = 1


class SystemError(Error, OSError):
    """The system refused: a file, memory, or the network."""

    code = 2


class InternalError(Error):
    """A fault of sparcl: please report it."""

    code = 3


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong."""

    code = 4


class InvalidUsageError(Error, RuntimeError):
    """The call is not allowed now."""

    code = 5


class RemoteError(Error, ConnectionError):
    """A rank died, left or aborted, or the publisher is not there."""

    code = 6


class TimeoutError(Error, builtins.TimeoutError):
    """A peer did not answer, or nothing came, in time."""

    code = 16


class MismatchError(Error):
    """The ranks did not make the same call, or the models differ."""

    code = 17


class CorruptError(Error):
    """Bytes failed a check."""

    code = 18


class UnsupportedError(Error, NotImplementedError):
    """Not supported here."""

    code = 19


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""

    code = 20


class WrongBaseError(Error):
    """The update is for another base than this rank holds."""

    code = 21


class UnauthorizedError(Error, PermissionError):
    """The signature is missing, wrong, or by an unknown key."""

    code = 22


class TruncatedError(Error):
    """The result does not fit the memory that was given."""

    code = 23


class StaleError(Error):
    """The version may be older than allowed, or another publisher has taken over."""

    code = 24


ALL = (
    UnhandledCudaError, SystemError, InternalError, InvalidArgumentError, InvalidUsageError,
    RemoteError, TimeoutError, MismatchError, CorruptError, UnsupportedError, OutOfMemoryError,
    WrongBaseError, UnauthorizedError, TruncatedError, StaleError,
)  # fmt: skip


class _ByCode(dict):
    def __missing__(self, code: int) -> type[Error]:
        return Error


#: The exception of a result code.
BY_CODE = _ByCode({error.code: error for error in ALL})


def failure(code: int, text: str) -> Error:
    """The exception of a call that the C library has failed."""
    return BY_CODE[code](in_python(text))
