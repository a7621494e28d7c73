"""Checkpoint engine "sparcl" of verl.

Written for verl/checkpoint_engine/base.py of March 2026 (registry, CheckpointEngine, manager) and
for `custom_backend_module`, by which verl imports this module in each process:

    actor_rollout_ref.rollout.checkpoint_engine.backend=sparcl
    +actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=sparcl.engines.verl

Options come from checkpoint_engine.engine_kwargs.sparcl; docs/guides/engines.md explains them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Optional

from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.utils.device import get_device_name

from .. import Comm
from .._errors import InvalidArgumentError, RemoteError
from . import _board
from ._shadow import Shadow
from ._staged import Staged

HAND_OVER = ("all", "layers", "changed")


@CheckpointEngineRegistry.register("sparcl")
class SparclCheckpointEngine(CheckpointEngine):
    """Rank 0 of the trainer publishes; each rollout worker keeps a replica in host memory.

    A worker passes tensors on to its server once all workers hold the version, checked.
    """

    def __init__(
        self, bucket_size: int = 0, is_master: bool = False, *, listen: Optional[str] = None,
        rollout_dtype: Any = "bfloat16", timeout: float = 600, hand_over: str = "all",
        publisher: Optional[dict[str, Any]] = None, subscriber: Optional[dict[str, Any]] = None,
    ):  # fmt: skip
        """Called by verl.

        Args:
            bucket_size: not used.
            is_master: whether this is rank 0 of the trainer.
            listen: address of the publisher; None: a free port of the loopback interface. Its port
                must be 0, because a second port is taken for notes.
            rollout_dtype: floats are rounded to it; None: as they are.
            timeout: seconds until an update is given up.
            hand_over: "all" tensors, those of "layers" with changes, or the "changed" ones alone.
            publisher: options of :class:`sparcl.Publisher`, for both of them.
            subscriber: options of :class:`sparcl.Subscriber`.
        """
        if hand_over not in HAND_OVER:
            raise InvalidArgumentError(f"hand_over is {hand_over!r}: pass one of {HAND_OVER}")
        self._timeout, self._hand_over = timeout, hand_over
        self._subscriber = dict(subscriber or {})
        self._board: Optional[_board.Board] = None
        self._staged: Optional[Staged] = None
        self._shadow: Optional[Shadow] = None
        self._comm: Optional[Comm] = None
        self._round = 0
        if is_master:
            self._board = _board.Board(listen, **(publisher or {}))
            self._staged = Staged(listen, dtype=_torch_type(rollout_dtype), **(publisher or {}))

    def prepare(self) -> Optional[dict[str, Any]]:
        if self._board is None:
            return None
        self._round += 1
        return {"notes": self._board.address, "round": self._round}

    @classmethod
    def build_topology(
        cls, trainer_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        trainer = {"master": [metadata[0]] * trainer_world_size}
        rollout = {
            "master": [metadata[0]] * rollout_world_size,
            "workers": [rollout_world_size] * rollout_world_size,
        }
        return trainer, rollout

    def init_process_group(self, master: dict[str, Any], workers: int = 0) -> None:
        self._master = master
        if workers and self._shadow is None:
            if workers > 1:  # verl has made a process group of all workers
                self._comm = Comm.from_torch(None, timeout=self._timeout)
            self._shadow = Shadow(self._comm, **self._subscriber)

    def finalize(self) -> None:
        """Does nothing: publisher and replicas are kept for the next update."""

    async def send_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        if self._staged is None or self._board is None:
            for _ in weights:  # gathering is collective
                pass
            return
        note: dict[str, Any] = {"round": self._round}
        try:
            version = self._staged.publish(weights)  # in this thread, which has its GPU
            note.update(self._staged.update_info(version))
        except BaseException as error:
            note["error"] = str(error)
            raise
        finally:
            self._board.put(note)

    async def receive_weights(self) -> AsyncIterator[tuple[str, Any]]:
        await asyncio.to_thread(self._shadow.receive, self._read_note, self._timeout)
        given = self._shadow.changed()
        if self._hand_over != "changed":
            given = self._shadow.whole_layers(None if self._hand_over == "all" else given)
        device = get_device_name()
        for name, tensor in given:
            yield name, tensor.to(device)
        self._shadow.accept()  # not reached if the server fails: then all are passed on again

    def _read_note(self) -> dict[str, Any]:
        wanted = self._master["round"]
        note = _board.read(
            self._master["notes"], lambda each: each["round"] == wanted,
            f"the trainer's update {wanted}", self._timeout, **self._subscriber,
        )  # fmt: skip
        if "error" in note:
            raise RemoteError(f"the trainer did not publish update {wanted}: {note['error']}")
        return note


def _torch_type(name: Any) -> Any:
    import torch

    return getattr(torch, name) if isinstance(name, str) else name
