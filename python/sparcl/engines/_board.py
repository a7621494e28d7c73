"""A note that one process puts up and others read: of what tensors a model has, and where it is."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from .. import Publisher, Subscriber
from .._errors import CorruptError, InvalidArgumentError, TimeoutError

#: Bytes of a compressed note, and of one as it is.
CAPACITY = 4 << 20
MAX_TEXT = 64 << 20


class Board:
    """Serves the newest note, plain values, to all that know the address and have a secret for it.

    Its options are those of :class:`sparcl.Publisher`, so it is as private as the weights are.
    """

    def __init__(self, listen: Optional[str] = None, **options: Any):
        self._bytes = np.zeros(CAPACITY, np.uint8)
        self._publisher = Publisher({"note": self._bytes}, listen, **options)

    @property
    def address(self) -> str:
        return self._publisher.address

    def put(self, note: Any) -> None:
        """Replaces the note."""
        text = zlib.compress(json.dumps(note).encode())
        if len(text) + 8 > CAPACITY:
            raise InvalidArgumentError(
                f"a note on the model has {len(text)} bytes, {CAPACITY - 8} are possible: give "
                "fewer tensors or values"
            )
        self._bytes[:8] = np.frombuffer(len(text).to_bytes(8, "little"), np.uint8)
        self._bytes[8 : 8 + len(text)] = np.frombuffer(text, np.uint8)
        self._publisher.publish()

    def close(self) -> None:
        self._publisher.close()


def read(
    address: str, wanted: Callable[[Any], bool], what: str, timeout: float, **options: Any
) -> Any:
    """Waits for a note for which `wanted` is true.

    Args:
        what: is waited for, for the text of errors.
        options: those of :class:`sparcl.Subscriber`.
    """
    deadline = time.monotonic() + timeout
    held = np.zeros(CAPACITY, np.uint8)
    with Subscriber({"note": held}, address, **options) as subscriber:
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                subscriber.next(left)
            except TimeoutError as error:
                raise TimeoutError(f"{what} has not come within {timeout:g} s: {error}") from None
            note = _parse(held)
            if wanted(note):
                return note


def _parse(held: np.ndarray) -> Any:
    size = int.from_bytes(held[:8].tobytes(), "little")
    if size > CAPACITY - 8:
        raise CorruptError(f"a note says that it has {size} bytes, {CAPACITY - 8} are possible")
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(held[8 : 8 + size].tobytes(), MAX_TEXT)
        if not unpacker.eof:
            raise ValueError(f"it has more than {MAX_TEXT} bytes, or is cut off")
        return json.loads(text)
    except (ValueError, zlib.error) as error:
        raise CorruptError(f"a note cannot be read: {error}") from None
