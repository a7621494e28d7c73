"""sparcl: sparse collectives and delta weight replication. It moves only what changed.

>>> import numpy as np, sparcl
>>> publisher = sparcl.Publisher({"w": np.zeros(1000, np.float32)})
>>> replica = {"w": np.empty(1000, np.float32)}
>>> subscriber = sparcl.Subscriber(replica, publisher.address)
>>> publisher.publish(1)
1
>>> subscriber.next(timeout=10)
1
"""

from ._aggregate import Aggregator, Worker
from ._comm import Comm, Request, unique_id
from ._core import (
    VERSION as _VERSION, Advice, AggregatorStats, FeedbackStats, FileReport, Report, RoundReport,
    StorePruned, StoreVersion, WorkerStats,
)  # fmt: skip
from ._errors import (
    CorruptError, Error, InternalError, InvalidArgumentError, InvalidUsageError, MismatchError,
    OutOfMemoryError, RemoteError, StaleError, TruncatedError, UnauthorizedError,
    UnhandledCudaError, UnsupportedError, WrongBaseError,
)  # fmt: skip
from ._errors import SystemError as SystemError
from ._errors import TimeoutError as TimeoutError
from ._feedback import Feedback, Mask
from ._files import (
    advise, apply, compose, convert, diff, invert, sign, verify, verify_signature,
)  # fmt: skip
from ._files import hash as hash
from ._program import Finding, doctor
from ._replication import Publisher, Subscriber
from ._state import State
from ._store import Store

__version__: str = _VERSION


def __getattr__(name: str) -> object:
    if name == "CheckpointSubscriber":
        from ._checkpoint import CheckpointSubscriber

        return CheckpointSubscriber
    raise AttributeError(f"module 'sparcl' has no attribute {name!r}")


def _show(facts: object) -> str:
    names = [name for name in dir(type(facts)) if not name.startswith("_")]
    shown = ", ".join(f"{name}={getattr(facts, name)!r}" for name in names)
    return f"{type(facts).__name__}({shown})"


for _kind in (
    Advice, AggregatorStats, FeedbackStats, FileReport, Report, RoundReport, StorePruned,
    WorkerStats,
):  # fmt: skip
    _kind.__repr__ = _show  # type: ignore[method-assign]

# Without hash, SystemError and TimeoutError: `from sparcl import *` keeps Python's own.
__all__ = [
    "Advice", "Aggregator", "AggregatorStats", "Comm", "CorruptError", "Error", "Feedback",
    "FeedbackStats", "FileReport", "Finding", "InternalError", "InvalidArgumentError",
    "InvalidUsageError", "Mask", "MismatchError", "OutOfMemoryError", "Publisher", "RemoteError",
    "Report", "Request", "RoundReport", "StaleError", "State", "Store", "StorePruned",
    "StoreVersion", "Subscriber", "TruncatedError", "UnauthorizedError", "UnhandledCudaError",
    "UnsupportedError", "Worker", "WorkerStats", "WrongBaseError", "advise", "apply", "compose",
    "convert", "diff", "doctor", "invert", "sign", "unique_id", "verify", "verify_signature",
]  # fmt: skip
