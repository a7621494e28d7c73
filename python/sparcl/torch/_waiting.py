"""What waits for a later step, by parameter: residuals, and the momentum before them.

A bucket is an array that is reduced at once: the gradients of some parameters, one after the other.
DistributedDataParallel makes its buckets anew after the first step, so that parameters move from
one to another. What waits for a parameter follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Hashable, Optional

import numpy as np
import torch

from .._comm import Comm
from .._feedback import Feedback
from .._errors import InvalidArgumentError

#: Name and elements of each parameter of a bucket.
Layout = tuple[tuple[str, int], ...]


class Bucket:
    """What one bucket keeps. With momentum the step is DGC's (Lin et al., ICLR 2018, section 3):
    the momentum of this rank's own gradients waits, and restarts at elements that were sent.
    """

    def __init__(
        self, layout: Layout, has_feedback: bool, momentum: Optional[float], restart: float
    ):
        self.layout = layout
        self.count = sum(count for _, count in layout)
        self.feedback = Feedback(self.count) if has_feedback else None
        self._momentum, self._restart = momentum, restart
        self._velocity: Optional[torch.Tensor] = None
        self._residual: Optional[torch.Tensor] = None  # a copy, if momentum needs it

    def input_of(self, gradient: torch.Tensor) -> torch.Tensor:
        """What the bucket gives to the sum: the gradient in float32, or its momentum."""
        if self._momentum is None:
            return gradient.float()
        if self._velocity is None:
            self._velocity = torch.zeros(self.count, device=gradient.device)
        elif self._velocity.device != gradient.device:
            self._velocity = self._velocity.to(gradient.device)
        return self._velocity.mul_(self._momentum).add_(gradient)

    def sent(self, result: torch.Tensor) -> None:
        """Restarts the momentum at elements that this rank sent. `result`: of the sum."""
        if self._velocity is None or self._restart == 0:
            return
        if self.feedback is None:
            self._restart_at(result != 0)
            return
        after = torch.from_numpy(self.feedback.residual).to(self._velocity.device)
        # Not sent: the residual is input + residual, as the library adds them, bit for bit.
        total = self._velocity
        if self._residual is not None:
            total = total + self._residual.to(total.device)
        self._restart_at(after != total)
        self._residual = after

    def _restart_at(self, sent: torch.Tensor) -> None:
        self._velocity[sent] *= 1 - self._restart

    def parts(self) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
        """Copies of what waits, by parameter."""
        kept = {}
        if self.feedback is not None:
            kept["residual"] = torch.from_numpy(self.feedback.residual)
        if self._velocity is not None:
            kept["momentum"] = self._velocity.cpu()
        begin = 0
        for name, count in self.layout:
            yield name, {kind: all[begin : begin + count].clone() for kind, all in kept.items()}
            begin += count

    def restore(self, parts: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Takes what waited, in the order of the layout. Missing parts are zeros."""
        residual = self._joined(parts, "residual") if self.feedback is not None else None
        if residual is not None:
            # A sum of no element of one rank alone: the residual takes all of the input.
            Comm.local(1)[0].all_reduce_top_k(residual.numpy(), 0, feedback=self.feedback)
            self._residual = residual if self._momentum is not None and self._restart else None
        if self._momentum is not None:
            self._velocity = self._joined(parts, "momentum")

    def _joined(self, parts: Sequence[Mapping[str, torch.Tensor]], kind: str) -> Any:
        if not any(kind in part for part in parts):
            return None
        joined = torch.zeros(self.count)
        begin = 0
        for (_, count), part in zip(self.layout, parts):
            if kind in part:
                joined[begin : begin + count] = part[kind]
            begin += count
        return joined


class Waiting:
    """The buckets of one hook, and what waits for parameters that are in none of them now."""

    def __init__(self, has_feedback: bool, momentum: Optional[float], restart: float):
        self._options = (has_feedback, momentum, restart)
        self._buckets: dict[Hashable, Bucket] = {}
        self._loose: dict[str, dict[str, torch.Tensor]] = {}

    def bucket(self, key: Hashable, layout: Layout) -> Bucket:
        """The bucket of a key, whose parameters take with them what waits for them."""
        known = self._buckets.get(key)
        if known is not None and known.layout == layout:
            return known
        names = {name for name, _ in layout}
        for other in [
            each for each, held in self._buckets.items()
            if each == key or any(name in names for name, _ in held.layout)
        ]:  # fmt: skip
            self._loose.update(self._buckets.pop(other).parts())
        made = Bucket(layout, *self._options)
        made.restore([self._taken(name, count) for name, count in layout])
        self._buckets[key] = made
        return made

    def _taken(self, name: str, count: int) -> Mapping[str, torch.Tensor]:
        parts = self._loose.pop(name, {})
        for kind, part in parts.items():
            if part.numel() != count:
                raise InvalidArgumentError(
                    f"the saved {kind} of parameter '{name}' has {part.numel()} elements, and the "
                    f"parameter has {count}: load the state of this model, or none"
                )
        return parts

    def save(self) -> dict[str, dict[str, torch.Tensor]]:
        """Copies of all that waits."""
        saved = {name: dict(parts) for name, parts in self._loose.items()}
        for bucket in self._buckets.values():
            saved.update(bucket.parts())
        return saved

    def load(self, saved: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Replaces all that waits. Buckets are made when they are next used."""
        self._buckets = {}
        self._loose = {
            name: {kind: part.detach().cpu().float().flatten() for kind, part in parts.items()}
            for name, parts in saved.items()
        }

    def residual_l2(self) -> float:
        """L2 norm of all residuals; reads them once."""
        parts = [part["residual"] for part in self.save().values() if "residual" in part]
        return float(np.sqrt(sum(float(part.double().square().sum()) for part in parts)))
