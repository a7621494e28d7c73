"""Aggregation: the ranks' sparse updates become one, by a mean, an outer optimiser and a cut."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._arrays import count_of, stream_of, vector_like
from ._choices import MEAN, NON_FINITE, OUTER, WIRE, number_of

if TYPE_CHECKING:
    from ._comm import Comm


class Aggregator:
    """The outer optimiser of :meth:`Comm.aggregate`, and what it keeps on this rank.

    Contributions are updates (new weights - old weights); results are added to the weights. All
    ranks make an aggregator with the same options, and use it in the same rounds.
    """

    def __init__(
        self, count: int, *, mean: str = "weight", outer: str = "none", learning_rate: float = 0,
        momentum: float = 0, beta2: float = 0, epsilon: float = 0, activation: float = 0,
        clip_l2: float = 0, clip_median: float = 0, keep: int = 0, delay: int = 0,
        non_finite: str = "fail", wire: str = "same",
    ):  # fmt: skip
        """Makes an aggregator of vectors of `count` elements. 0 is the default of an option.

        Args:
            mean: "weight", "workers", "contributors" or "none" (the weighted sum).
            outer: "none", "sgd", "nesterov" (DiLoCo), "delayed_nesterov" or "adam".
            learning_rate: of the outer optimiser; default 1.
            momentum: below 1; of Adam beta1.
            beta2, epsilon: of Adam.
            activation, delay: of delayed Nesterov.
            clip_l2: a contribution with a larger L2 norm is scaled down to it.
            clip_median: likewise, to so many times the round's median norm.
            keep: elements of a result at most; the rest is kept for later rounds.
            non_finite: a contribution that is not finite: "fail", "refuse" or "zero".
            wire: of results: "same", "bfloat16", "int8", "int4" or "int2".
        """
        options = _core.aggregator_options(
            number_of(MEAN, mean, "mean"), number_of(OUTER, outer, "outer"), learning_rate,
            momentum, beta2, epsilon, activation, clip_l2, clip_median, keep, delay,
            number_of(NON_FINITE, non_finite, "non_finite"), number_of(WIRE, wire, "wire"),
        )  # fmt: skip
        self._aggregator = _core.aggregator_create(int(count), options)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Aggregator:
        """Makes an aggregator from a file of :meth:`save`, bit for bit, with its options.

        It works with as many ranks, on the rank that saved it.
        """
        aggregator = cls.__new__(cls)
        aggregator._aggregator = _core.aggregator_load(os.fspath(path))
        return aggregator

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Saves this rank's part to a file, which appears when it is complete."""
        self._aggregator.save(os.fspath(path))

    def close(self) -> None:
        """Gives the memory back."""
        self._aggregator.close()

    @property
    def stats(self) -> _core.AggregatorStats:
        """Facts of the last round."""
        return self._aggregator.stats()


def aggregate(
    comm: Comm, values: Any, indices: Any, count: int, weight: float,
    aggregator: Optional[Aggregator], capacity: int, ranks: Sequence[int], stream: Any,
) -> tuple[Any, Any]:  # fmt: skip
    room = capacity or max(1, count if aggregator else min(count, count_of(values) * comm.size))
    handle = None if aggregator is None else aggregator._aggregator
    while True:
        out, places = vector_like(values, room), vector_like(indices, room)
        nnz, fits = _core.aggregate(
            comm._comm, values, indices, count, weight, out, places, handle, list(ranks),
            stream_of(stream),
        )  # fmt: skip
        if fits:
            return out[:nnz], places[:nnz]
        room = max(nnz, 1)
