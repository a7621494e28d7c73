"""Outer steps with an aggregator: workers may join, die and come back."""

from __future__ import annotations

from typing import Any

import torch

from .._aggregate import Worker
from .._state import State


class ElasticDiLoCo:
    """A worker of DiLoCo without a communicator: see :class:`sparcl.Aggregator.serve`, which steps
    the outer optimiser. The other workers need not be there, nor be as fast.

    The parameters must be in host memory, and must not be moved meanwhile.
    """

    def __init__(
        self, module: torch.nn.Module, address: str, *, every: int = 100, timeout: float = 600,
        **options: Any,
    ):  # fmt: skip
        """Connects, and takes the aggregator's weights.

        Args:
            module: its parameters have the aggregator's names, types, shapes and order.
            address: "HOST:PORT" of the aggregator, or several with commas between them.
            every: steps between contributions.
            timeout: seconds to wait for a version.
            options: those of :class:`sparcl.Worker`.
        """
        named = [(name, each.detach()) for name, each in module.named_parameters()]
        self.every, self._timeout, self._steps = every, timeout, 0
        self.worker = Worker(State(named), address, **options)
        #: The version that the parameters started from.
        self.version = self.worker.next(timeout)

    def step(self, weight: float = 1.0) -> bool:
        """Counts a step of the inner optimiser. Every `every`-th time it contributes what has
        changed, waits for the next version, and writes it to the parameters.

        Args:
            weight: of this worker, such as the tokens that it has trained on.

        Returns:
            Whether it did.
        """
        self._steps += 1
        if self._steps % self.every:
            return False
        self.worker.contribute(weight)
        self.version = self.worker.next(self._timeout)
        return True

    def close(self) -> None:
        """Waits until the contributions count, and leaves."""
        self.worker.flush(self._timeout)
        self.worker.close()
