"""The engine's side of all adapters: a replica in host memory, from which an engine is loaded."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np

from .. import Comm, Mask, State, Subscriber
from .._errors import Error, InvalidArgumentError

Weights = list[tuple[str, Any]]
_LAYER = re.compile(r"(.*?\.\d+)\.")
# A subscriber keeps what an update replaced if that is at most a quarter of the model's bytes: with
# 16-bit tensors, of 12 % of the elements. Above half of this the shadow copies its tensors before.
_FRACTION = 0.06


class Shadow:
    """The newest version of a model in host memory, as torch tensors, for one rank of an engine.

    A version is received and checked here first, so a failed transfer never reaches the engine.
    The engine then loads the tensors that changed. The C interface does not tell which those are:
    the shadow hashes all tensors (10 GB/s a core), and compares with the hashes of what the engine
    has. All ranks of `comm` load a version, or none does.
    """

    def __init__(self, comm: Optional[Comm] = None, **options: Any):
        """Makes an empty shadow.

        Args:
            comm: of all ranks of the engine, which make the same calls; None: there is one rank.
            options: those of :class:`sparcl.Subscriber`.
        """
        self._subscriber: Optional[Subscriber] = None
        self.join(comm, **options)
        self._metas: list[Any] = []
        self._tensors: dict[str, Any] = {}
        self._parts: dict[str, State] = {}
        self._loaded: dict[str, str] = {}  # hash of each tensor that the engine has
        self._now: dict[str, str] = {}  # hash of each tensor at the last changed()
        self._address = ""
        self._wanted = 0  # the version that is received
        self._before = 0  # the version to which the subscriber can go back
        self._old: dict[str, Any] = {}  # copies for an update after which it could not
        #: The version that the engine serves; 0: none of sparcl's, or it is not known.
        self.version = 0

    def join(self, comm: Optional[Comm], **options: Any) -> None:
        """Goes on with another communicator and other options, as of the constructor."""
        self.close()
        self._comm, self._options = comm, options

    def update(
        self, info: Mapping[str, Any], load: Callable[[Weights], None], timeout: float
    ) -> int:
        """Brings the engine to a version. After an error it serves the version that it had.

        Args:
            info: of :meth:`Staged.update_info`.
            load: writes tensors into the engine: those that changed. If a rank fails, `load` is
                called again with the old values.
            timeout: seconds until :class:`sparcl.TimeoutError`.
        """
        self.receive(info, timeout, keep_old=True)
        changed = self.changed()
        failure = self._agreed(lambda: load(changed))
        if failure is not None:
            self._go_back(load, changed, timeout, failure)
        self.accept()
        return self.version

    # Copies the tensors if they are what the engine serves, and the subscriber will not keep them.
    def _keep_old(self, info: Mapping[str, Any]) -> None:
        self._old = {}
        next_one = info["version"] == self._before + 1
        if self._before and next_one and info.get("fraction", 1) < _FRACTION:
            return
        if self.version and not self.changed():
            self._old = {name: each.clone() for name, each in self._tensors.items()}

    def receive(self, info: Any, timeout: float, *, keep_old: bool = False) -> None:
        """Waits until the tensors hold a version, on all ranks.

        Args:
            info: as of :meth:`update`, or a function that gives it.
            keep_old: so that the version before can be shown again.
        """
        deadline = time.monotonic() + timeout
        failure = self._agreed(
            lambda: self._follow(info() if callable(info) else info, keep_old)
        )
        if failure is not None:
            raise failure
        shown = self._subscriber.version if self._comm is None else 0
        while shown != self._wanted:
            left = max(0.0, deadline - time.monotonic())
            if self._comm is None:
                shown = self._subscriber.next(left)
            else:
                shown = self._subscriber.next_group(self._comm, left)

    def changed(self) -> Weights:
        """The tensors that the engine does not have as they are now."""
        self._now = {name: part.hash() for name, part in self._parts.items()}
        return [
            (name, tensor)
            for name, tensor in self._tensors.items()
            if self._now[name] != self._loaded.get(name)
        ]

    def accept(self) -> None:
        """Notes that the engine has loaded what :meth:`changed` gave."""
        self._loaded, self._old = self._now, {}
        self.version = self._before = self._subscriber.version

    def whole_layers(self, some: Optional[Weights]) -> Weights:
        """All tensors of the layers ("model.layers.7") that `some` are of; None: all tensors."""
        if some is None:
            return list(self._tensors.items())
        wanted = {_layer_of(name) for name, _ in some}
        return [pair for pair in self._tensors.items() if _layer_of(pair[0]) in wanted]

    # Subscribes to the publisher of a version, if that is another one than before.
    def _follow(self, info: Mapping[str, Any], keep_old: bool) -> None:
        lists = [info.get(key) for key in ("names", "dtype_names", "shapes")]
        if not all(isinstance(each, list) and len(each) == len(lists[0]) for each in lists):
            raise InvalidArgumentError("names, dtype_names and shapes must be lists of one length")
        metas = [(name, dtype, tuple(shape)) for name, dtype, shape in zip(*lists)]
        if metas != self._metas:
            self._make_tensors(metas)
        if info["address"] != self._address or self._subscriber is None:
            self._subscribe(info["address"])
        if keep_old:
            self._keep_old(info)
        self._subscriber.pin(info["version"])
        self._wanted = info["version"]

    def _make_tensors(self, metas: list[Any]) -> None:
        import torch

        self.close()
        self._metas, self._tensors, self._loaded = [], {}, {}
        for name, dtype, shape in metas:
            kind = getattr(torch, dtype, None)
            if not isinstance(kind, torch.dtype):
                raise InvalidArgumentError(f"tensor {name!r}: torch has no type {dtype!r}")
            self._tensors[name] = torch.zeros(shape, dtype=kind)
        self._parts = {name: State({name: each}) for name, each in self._tensors.items()}
        self._metas = metas

    def _subscribe(self, address: str) -> None:
        self.close()
        self._subscriber = Subscriber(State(self._tensors), address, **self._options)
        self._address, self._before = address, 0

    # Each rank tells the others whether its part failed. The failure of this rank, or of another.
    def _agreed(self, part: Callable[[], None]) -> Optional[Exception]:
        try:
            part()
            failure = None
        except Exception as error:
            failure = error
        if self._comm is None:
            return failure
        try:
            if failure is not None:
                self._comm.refuse(f"rank {self._comm.rank}: {failure}")
            self._comm.all_reduce_masked(np.zeros(1, np.float32), Mask(np.zeros(1, np.int64), 1))
        except Error as error:
            return failure or error
        return None

    # Shows the version before, and has the engine load it again.
    def _go_back(self, load: Any, changed: Weights, timeout: float, failure: Exception) -> None:
        failed = f"the engine did not load version {self._wanted}: {failure}"
        try:
            self._restore(timeout)
            load(changed)
        except Exception as second:
            for name, _ in changed:  # the next update loads them, whatever version it has
                self._loaded.pop(name, None)
            self.version = 0
            self._subscribe(self._address)
            raise Error(
                f"{failed}. It may hold parts of it ({second}): load a newer version, or restart it"
            ) from failure
        raise Error(f"{failed}. It serves version {self.version}") from failure

    def _restore(self, timeout: float) -> None:
        if self._old:
            self._subscriber.close()
            for name, each in self._old.items():
                self._tensors[name].copy_(each)
            self._old = {}
            self._subscribe(self._address)
        elif self._before:
            self._subscriber.pin(self._before)
            self._subscriber.next(timeout)
        else:
            raise InvalidArgumentError("sparcl gave it no version before")

    def close(self) -> None:
        if self._subscriber is not None:
            self._subscriber.close()
            self._subscriber = None


def _layer_of(name: str) -> str:
    found = _LAYER.match(name)
    return found[1] if found else name.rpartition(".")[0]
