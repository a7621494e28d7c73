"""SGLang: a weight loader, and a hook that feeds `/pull_weights`.

Written for SGLang 0.5.15 and later: `update_weights_from_tensor` with a custom loader, and the hook of
`/pull_weights` (python/sglang/srt, July 2026).

    --custom-weight-loader sparcl.engines.sglang.load
    --custom-pull-weights-pre-read-hook sparcl.engines.sglang.fetch

docs/guides/engines.md has the trainer's part, and the limits.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import weakref
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from .. import Comm, Publisher, Subscriber
from .._errors import InvalidArgumentError, StaleError, TimeoutError
from ._shadow import Shadow, Weights
from ._staged import Staged

LOADER = f"{__name__}.load"
_NOTE = "sparcl.update"
_shadows: Any = weakref.WeakKeyDictionary()  # of each model of this process
_log = logging.getLogger(__name__)


class Trainer:
    """The trainer's part of :func:`load`: publishes, tells the engine, and waits for its ranks."""

    def __init__(
        self, listen: Optional[str] = None, *, ranks: int = 1, dtype: Any = None, timeout: float = 600,
        hand_over: str = "changed", publisher: Optional[dict[str, Any]] = None,
        subscriber: Optional[dict[str, Any]] = None,
    ):  # fmt: skip
        """Prepares two publishers: of the weights, and of receipts.

        Args:
            listen: their address; None: free ports of the loopback interface. Its port must be 0.
            ranks: of the engine: tensor parallel size times pipeline parallel size.
            dtype: floats are rounded to this torch type; None: as they are.
            timeout: seconds until a rank gives an update up.
            hand_over: "changed" tensors, or all tensors of "layers" that have such.
            publisher: options of :class:`sparcl.Publisher`.
            subscriber: options of :class:`sparcl.Subscriber` in the engine.
        """
        if hand_over not in ("changed", "layers"):
            raise InvalidArgumentError(f'hand_over is {hand_over!r}: pass "changed" or "layers"')
        self._ranks, self._timeout = ranks, timeout
        self._fixed = {"timeout": timeout, "hand_over": hand_over, "subscriber": dict(subscriber or {})}
        self._staged = Staged(listen, dtype=dtype, **(publisher or {}))
        self._receipts = Publisher({"receipt": np.zeros(1)}, listen, **(publisher or {}))

    def update(self, engine: Any, weights: Iterable[tuple[str, Any]], patience: float = 30) -> int:
        """Has an engine load tensors. If it does not, it serves the version before.

        Args:
            engine: has `update_weights_from_tensor`, as sglang.Engine.
            patience: seconds that receipts may come after the engine's answer.

        Raises:
            sparcl.TimeoutError: not all ranks have loaded the version; the engine's log says why.

        Returns:
            The version.
        """
        import torch

        version = self._staged.publish(weights)
        self._receipts.publish(version)
        note = {**self._staged.update_info(version), **self._fixed, "receipts": self._receipts.address}
        text = torch.frombuffer(bytearray(json.dumps(note).encode()), dtype=torch.uint8)
        engine.update_weights_from_tensor([(_NOTE, text)], load_format=LOADER, flush_cache=True)
        try:
            self._receipts.wait(version, self._ranks, patience)
        except TimeoutError:
            raise TimeoutError(
                f"the engine has not loaded version {version} on all of its {self._ranks} ranks: it "
                "serves the version before; its log says why"
            ) from None
        return version

    def close(self) -> None:
        self._staged.close()
        self._receipts.close()


def load(model: Any, named_tensors: Iterable[tuple[str, Any]]) -> None:
    """SGLang calls this on each rank. A failure is logged, because an exception ends SGLang."""
    try:
        note = json.loads(bytes(dict(named_tensors)[_NOTE].cpu().numpy()))
        shadow = _shadows.get(model)
        if shadow is None:
            comm = _comm_of_ranks(note["timeout"])
            shadow = _shadows[model] = Shadow(comm, **note["subscriber"])
        shadow.update(note, lambda weights: _load_into(model, shadow, weights, note), note["timeout"])
        with Subscriber({"receipt": np.zeros(1)}, note["receipts"], **note["subscriber"]) as receipt:
            receipt.next(30)
    except Exception as failure:
        _log.error("sparcl: the weights stay as they are: %s", failure)


def _load_into(model: Any, shadow: Shadow, weights: Weights, note: dict[str, Any]) -> None:
    if weights:
        model.load_weights(shadow.whole_layers(weights) if note["hand_over"] == "layers" else weights)


def _comm_of_ranks(timeout: float) -> Optional[Comm]:
    from sglang.srt.distributed.parallel_state import get_world_group

    group = get_world_group()
    return None if group.world_size == 1 else Comm.from_torch(group.cpu_group, timeout=timeout)


def fetch(source_dir: Any, target_version: int) -> None:
    """Brings the folder weight_vN to this host, before `/pull_weights` reads it.

    The counterpart of :func:`sparcl.engines.slime.publish`, for hosts without a shared file system:
    SPARCL_ENGINES_SOURCE is the address of its publisher, or the URL of its store. The replica in
    `source_dir` takes deltas; weight_vN has its files, as hard links.
    """
    source = os.environ.get("SPARCL_ENGINES_SOURCE")
    if not source:
        raise InvalidArgumentError("SPARCL_ENGINES_SOURCE is not set: it says who publishes")
    replica = os.path.join(source_dir, ".sparcl")
    folder = os.path.join(source_dir, f"weight_v{target_version:06d}")
    os.makedirs(source_dir, exist_ok=True)
    with open(os.path.join(source_dir, ".sparcl-lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # all ranks of this host call the hook
        if os.path.isdir(folder):
            return
        seconds = float(os.environ.get("SPARCL_ENGINES_TIMEOUT", "600"))
        options = {"secret": os.environ.get("SPARCL_ENGINES_REPLICA_SECRET")}
        with Subscriber.into_checkpoint(replica, source, **options) as checkpoint:
            while checkpoint.version < target_version + 1:  # version 1 is what SGLang began with
                checkpoint.next(seconds)
        if checkpoint.version != target_version + 1:
            raise StaleError(f"{folder} is not there any more: the publisher has a later version")
        for old in [each for each in os.listdir(source_dir) if each.startswith("weight_v")]:
            shutil.rmtree(os.path.join(source_dir, old))
        shutil.copytree(replica, folder + ".new", copy_function=os.link, dirs_exist_ok=True)
        os.rename(folder + ".new", folder)
