"""SGLang: a weight loader. The hook of `/pull_weights` is in sglang_pull.

Written for SGLang 0.5.15 and later (python/sglang/srt of July 2026): `update_weights_from_tensor`
with a custom loader.

    --custom-weight-loader sparcl.engines.sglang.load

docs/guides/engines.md has the trainer's part, and the limits.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from .. import Comm, Publisher, Subscriber
from .._errors import InvalidArgumentError, TimeoutError
from ._shadow import Shadow, Weights
from ._staged import Staged

LOADER = f"{__name__}.load"
_NOTE = "sparcl.update"
_ranks: Any = weakref.WeakKeyDictionary()  # of each model of this process
_log = logging.getLogger(__name__)


class Trainer:
    """The trainer's part of :func:`load`: publishes, tells the engine, and waits for its ranks."""

    def __init__(
        self, listen: Optional[str] = None, *, ranks: int = 1, dtype: Any = None,
        timeout: float = 600, hand_over: str = "changed",
        publisher: Optional[dict[str, Any]] = None, subscriber: Optional[dict[str, Any]] = None,
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
        self._fixed = {
            "timeout": timeout, "hand_over": hand_over, "subscriber": dict(subscriber or {}),
        }  # fmt: skip
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
        note = {**self._staged.update_info(version), **self._fixed}
        note["receipts"] = self._receipts.address
        text = torch.frombuffer(bytearray(json.dumps(note).encode()), dtype=torch.uint8)
        engine.update_weights_from_tensor([(_NOTE, text)], load_format=LOADER, flush_cache=True)
        try:
            self._receipts.wait(version, self._ranks, patience)
        except TimeoutError:
            raise TimeoutError(
                f"the engine has not loaded version {version} on all of its {self._ranks} ranks: "
                "it serves the version before; its log says why"
            ) from None
        return version

    def close(self) -> None:
        self._staged.close()
        self._receipts.close()


def load(model: Any, named_tensors: Iterable[tuple[str, Any]]) -> None:
    """SGLang calls this on each rank. Failures are logged, because an exception ends SGLang."""
    try:
        note = json.loads(bytes(dict(named_tensors)[_NOTE].cpu().numpy()))
        rank = _ranks.get(model)
        if rank is None:
            rank = _ranks[model] = _Rank(note)
        rank.update(model, note)
    except Exception as failure:
        _log.error("sparcl: the update has failed: %s", failure)


class _Rank:
    """A rank's replica, and its receipts: a subscriber that shows what the rank has loaded."""

    def __init__(self, note: dict[str, Any]):
        self.shadow = Shadow(_comm_of_ranks(note["timeout"]), **note["subscriber"])
        self._receipt: Optional[Subscriber] = None
        self._receipts = ""

    def update(self, model: Any, note: dict[str, Any]) -> None:
        def load(changed: Weights) -> None:
            if note["hand_over"] == "layers":
                changed = self.shadow.whole_layers(changed)
            if changed:
                model.load_weights(changed)

        self.shadow.update(note, load, note["timeout"])
        if note["receipts"] != self._receipts:
            self.close_receipt()
            self._receipts = note["receipts"]
            held = {"receipt": np.zeros(1)}
            self._receipt = Subscriber(held, self._receipts, **note["subscriber"])
        self._receipt.next(note["timeout"])

    def close_receipt(self) -> None:
        if self._receipt is not None:
            self._receipt.close()

    def close(self) -> None:
        self.close_receipt()
        self.shadow.close()


def _comm_of_ranks(timeout: float) -> Optional[Comm]:
    from sglang.srt.distributed.parallel_state import get_world_group

    group = get_world_group()
    return None if group.world_size == 1 else Comm.from_torch(group.cpu_group, timeout=timeout)
