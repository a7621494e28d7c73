"""Checkpoint transport of torchft: a replica group that has fallen behind takes a peer's state.

Written for torchft/checkpointing/transport.py of October 2025 (CheckpointTransport):

    manager = torchft.Manager(..., checkpoint_transport=SparclTransport())

The state may be nested. Tensors travel as a version of a publisher, other values as JSON: nothing
that comes from the network is unpickled. docs/guides/engines.md has the limits.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

from torchft.checkpointing.transport import CheckpointTransport

from .._errors import CorruptError, InvalidArgumentError
from . import _board
from ._shadow import Shadow
from ._staged import Staged

_PLAIN = (type(None), bool, int, float, str)


class SparclTransport(CheckpointTransport):
    """Serves the state of the last send_checkpoint until the next one.

    A receiver gets tensors on the CPU. They are valid until its next recv_checkpoint: copy them
    into the model, as `load_state_dict` does.
    """

    def __init__(
        self, listen: Optional[str] = None, *, publisher: Optional[dict[str, Any]] = None,
        subscriber: Optional[dict[str, Any]] = None,
    ):  # fmt: skip
        """Starts to serve.

        Args:
            listen: address of the publisher; None: a free port of the loopback interface. Its port
                must be 0, because a second port is taken for notes.
            publisher: options of :class:`sparcl.Publisher`, such as secret.
            subscriber: options of :class:`sparcl.Subscriber`.
        """
        self._listen, self._publisher = listen, dict(publisher or {})
        self._subscriber = dict(subscriber or {})
        self._board = _board.Board(listen, **self._publisher)
        self._staged = Staged(listen, **self._publisher)
        self._shadow = Shadow(**self._subscriber)

    def metadata(self) -> str:
        return self._board.address

    def send_checkpoint(
        self, dst_ranks: list[int], step: int, state_dict: Any, timeout: timedelta
    ) -> None:
        """Copies the state, and serves it to all receivers. Does not wait for them."""
        tensors: dict[str, Any] = {}
        tree = _tree_of(state_dict, "", tensors)
        if not self._staged.takes(tensors):
            self._staged.close()
            self._staged = Staged(self._listen, **self._publisher)
        note = {"step": step, "tree": tree}
        if tensors:
            note.update(self._staged.update_info(self._staged.publish(tensors.items())))
        self._board.put(note)

    def disallow_checkpoint(self) -> None:
        """Does nothing: what is served is a copy, which the next step does not change."""

    def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta) -> Any:
        seconds = timeout.total_seconds()
        note = _board.read(
            metadata, lambda each: each["step"] == step,
            f"the checkpoint of step {step} from rank {src_rank} at {metadata}", seconds,
            **self._subscriber,
        )  # fmt: skip
        tensors = {}
        if "version" in note:
            self._shadow.receive(note, seconds)
            tensors = dict(self._shadow.whole_layers(None))
        return _value_of(note["tree"], tensors)

    def shutdown(self, wait: bool = True) -> None:
        for each in (self._shadow, self._staged, self._board):
            each.close()


# A nested state as JSON: {"tensor": its name}, {"dict": pairs}, {"list": ...}, {"tuple": ...}, or a
# plain value. Tensors are added to `tensors`.
def _tree_of(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    if hasattr(value, "data_ptr"):
        if value.numel() == 0:
            return {"empty": [str(value.dtype).split(".")[-1], list(value.shape)]}
        tensors[path] = value
        return {"tensor": path}
    if isinstance(value, dict):
        if not all(type(key) in _PLAIN for key in value):
            raise InvalidArgumentError(f"{path or 'the state'} has keys that are not plain values")
        pairs = [[key, _tree_of(each, f"{path}/{key!r}", tensors)] for key, each in value.items()]
        return {"dict": pairs}
    if type(value) in (list, tuple):
        parts = [_tree_of(each, f"{path}/{i}", tensors) for i, each in enumerate(value)]
        return {type(value).__name__: parts}
    if type(value) in _PLAIN:
        return value
    raise InvalidArgumentError(
        f"{path or 'the state'} is a {type(value).__name__}: a checkpoint may have tensors, dicts, "
        "lists, tuples, numbers and texts"
    )


def _value_of(tree: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, what),) = tree.items()
    if kind == "tensor":
        return tensors[what]
    if kind == "empty":
        import torch

        return torch.empty(what[1], dtype=getattr(torch, what[0]))
    if kind == "dict":
        return {key: _value_of(each, tensors) for key, each in what}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_value_of(each, tensors) for each in what)
    raise CorruptError(f"a checkpoint has a part of unknown kind {kind!r}")
