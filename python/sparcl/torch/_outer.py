"""Outer steps: workers train alone for some steps, then aggregate what they have changed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import torch

from .._aggregate import Aggregator
from .._comm import Comm
from .._errors import InvalidArgumentError


class DiLoCo:
    """Each worker makes `every` steps alone; then all make one outer step (DiLoCo: Douillard et
    al., arXiv 2311.08105).

    What is exchanged are updates: weights now - weights of the last outer step. The outer optimiser
    steps with their mean, and all workers go on from the result, which has the same bits on all.
    Buffers of a module (batch norm) are not exchanged.
    """

    def __init__(
        self, parameters: Union[torch.nn.Module, Iterable[torch.Tensor]], comm: Comm, *,
        every: int = 100, outer: str = "nesterov", learning_rate: float = 0.7,
        momentum: float = 0.9, ratio: float = 1.0, keep: int = 0, wire: str = "same",
        clip_l2: float = 0, clip_median: float = 0, non_finite: str = "fail",
    ):  # fmt: skip
        """Collective over `comm`: all workers begin with the weights of rank 0.

        Args:
            parameters: a module, or tensors of floats; the same shapes on all ranks.
            every: steps between outer steps.
            outer, learning_rate, momentum, clip_l2, clip_median, non_finite: of the
                :class:`sparcl.Aggregator`.
            ratio: elements of its update that a worker sends, the largest ones; the rest is added
                to its next update.
            keep: elements of a result at most; 0: all. The rest is kept for later outer steps.
            wire: type of the results' values: "same", "bfloat16", "int8", "int4" or "int2".
        """
        if every < 1 or not 0 < ratio <= 1:
            raise InvalidArgumentError(
                f"every is {every} and ratio is {ratio}: every is 1 or more, ratio above 0 and at "
                "most 1"
            )
        if isinstance(parameters, torch.nn.Module):
            parameters = parameters.parameters()
        self._parameters = list(parameters)
        self.comm, self.every, self._ratio = comm, every, ratio
        self._steps = 0
        self._anchor = self._flat()
        self._count = self._anchor.numel()
        self._residual: Optional[torch.Tensor] = None
        self._capacity = min(keep, self._count) if keep else self._count
        self._aggregator = Aggregator(
            self._count, outer=outer, learning_rate=learning_rate, momentum=momentum, keep=keep,
            wire=wire, clip_l2=clip_l2, clip_median=clip_median, non_finite=non_finite,
        )  # fmt: skip
        self.bytes_sent = 0
        comm.broadcast_delta(self._anchor)
        self._show()

    def step(self, weight: float = 1.0) -> bool:
        """Counts a step of the inner optimiser; every `every`-th time it calls :meth:`exchange`.

        Returns:
            Whether it did.
        """
        self._steps += 1
        if self._steps % self.every:
            return False
        self.exchange(weight)
        return True

    def exchange(self, weight: float = 1.0) -> None:
        """The outer step. Collective. After an agreed error nothing has changed.

        Args:
            weight: of this worker, such as the tokens that it has trained on.
        """
        update = self._flat() - self._begun()
        if self._residual is not None:
            update += self._residual
        if self._ratio < 1:
            k = max(1, round(self._ratio * self._count))
            indices = update.abs().topk(k, sorted=False).indices.sort().values
        else:
            indices = update.nonzero().flatten()
        values, places = self.comm.aggregate(
            update[indices], indices, self._count, weight=weight, aggregator=self._aggregator,
            capacity=self._capacity,
        )  # fmt: skip
        self.bytes_sent += self.comm.last_report.bytes_sent
        if self._ratio < 1:
            update[indices] = 0
            self._residual = update
        self._anchor[places] += values
        self._show()

    @property
    def stats(self) -> Any:
        """Facts of the last outer step: :class:`sparcl.AggregatorStats`."""
        return self._aggregator.stats

    def state_dict(self) -> dict[str, Any]:
        """This rank's state, beside the weights. Save it on every rank."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "aggregator")
            self._aggregator.save(path)
            with open(path, "rb") as file:
                aggregator = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        return {
            "rank": self.comm.rank, "size": self.comm.size, "steps": self._steps,
            "anchor": self._anchor.clone(), "aggregator": aggregator,
            "residual": None if self._residual is None else self._residual.clone(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the state of :meth:`state_dict`, of the same rank of as many ranks. The weights are
        not touched: load them from the checkpoint."""
        saved, own = (state["rank"], state["size"]), (self.comm.rank, self.comm.size)
        if saved != own or state["anchor"].numel() != self._count:
            raise InvalidArgumentError(
                f"the state is of rank {saved[0]} of {saved[1]} with {state['anchor'].numel()} "
                f"weights, this is rank {own[0]} of {own[1]} with {self._count}: load this rank's "
                "file of this model"
            )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "aggregator")
            with open(path, "wb") as file:
                file.write(state["aggregator"].cpu().numpy().tobytes())
            self._aggregator = Aggregator.load(path)
        self._steps = int(state["steps"])
        self._anchor.copy_(state["anchor"])
        residual = state["residual"]
        self._residual = None if residual is None else residual.detach().cpu().clone()

    # --- the weights as one vector of float32 in host memory ---

    def _flat(self) -> torch.Tensor:
        with torch.no_grad():
            parts = [each.detach().flatten().to("cpu", torch.float32) for each in self._parameters]
            return torch.cat(parts) if parts else torch.empty(0)

    def _pieces(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        begin = 0
        for each in self._parameters:
            yield each, self._anchor[begin : begin + each.numel()]
            begin += each.numel()

    # The weights that the steps began with: the anchor, rounded to their types.
    def _begun(self) -> torch.Tensor:
        return torch.cat([piece.to(each.dtype).float() for each, piece in self._pieces()])

    def _show(self) -> None:
        with torch.no_grad():
            for each, piece in self._pieces():
                each.copy_(piece.view(each.shape))


class LocalSGD(DiLoCo):
    """Workers train alone for `every` steps, then go on from the mean of their weights (Stich,
    ICLR 2019). :class:`DiLoCo` without an outer optimiser.
    """

    def __init__(
        self, parameters: Union[torch.nn.Module, Iterable[torch.Tensor]], comm: Comm, *,
        every: int = 10, **options: Any,
    ):  # fmt: skip
        """As :class:`DiLoCo`, without `outer`, `learning_rate` and `momentum`."""
        super().__init__(
            parameters, comm, every=every, outer="none", learning_rate=1.0, momentum=0, **options
        )
