"""Aggregation: the ranks' sparse updates become one, by a mean, an outer optimiser and a cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._arrays import count_of, stream_of, vector_like
from ._choices import (
    MEAN, NON_FINITE, OUTER, ROUND, WIRE, Mean, NonFinite, Outer, Path, Round, Wire, fill,
    number_of, path_of, real, text, text_path, toggle, whole, wholes,
)  # fmt: skip
from ._replication import _Ended, _open, _with_limit
from ._state import State, Tensors, as_state

if TYPE_CHECKING:
    from ._comm import Comm


class Aggregator(_Ended):
    """The outer optimiser of :meth:`Comm.aggregate`, and what it keeps on this rank.

    Contributions are updates (new weights - old weights); results are added to the weights. All
    ranks make an aggregator with the same options, and use it in the same rounds. Or one process
    makes an aggregator and serves workers that come and go: :meth:`serve`.
    """

    def __init__(
        self, count: int, *, mean: Mean = "weight", outer: Outer = "none", learning_rate: float = 0,
        momentum: float = 0, beta2: float = 0, epsilon: float = 0, activation: float = 0,
        clip_l2: float = 0, clip_median: float = 0, keep: int = 0, delay: int = 0,
        non_finite: NonFinite = "fail", wire: Wire = "same",
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
            number_of(MEAN, mean, "mean"), number_of(OUTER, outer, "outer"),
            real(learning_rate, "learning_rate"), real(momentum, "momentum"),
            real(beta2, "beta2"), real(epsilon, "epsilon"), real(activation, "activation"),
            real(clip_l2, "clip_l2"), real(clip_median, "clip_median"), whole(keep, "keep"),
            whole(delay, "delay"),
            number_of(NON_FINITE, non_finite, "non_finite"), number_of(WIRE, wire, "wire"),
        )  # fmt: skip
        self._handle = _core.aggregator_create(whole(count, "count"), options)
        _open.add(self)

    @classmethod
    def load(cls, path: Path) -> Aggregator:
        """Makes an aggregator from a file of :meth:`save`, bit for bit, with its options.

        It works with as many ranks, on the rank that saved it.
        """
        aggregator = cls.__new__(cls)
        aggregator._handle = _core.aggregator_load(path_of(path, "path"))
        _open.add(aggregator)
        return aggregator

    def save(self, path: Path) -> None:
        """Saves this rank's part to a file, which appears when it is complete."""
        self._handle.save(path_of(path, "path"))

    @property
    def stats(self) -> _core.AggregatorStats:
        """Facts of the last round."""
        return self._handle.stats()

    # --- serving workers ---

    def serve(
        self, state: Union[State, Tensors], listen: Optional[str] = None, *,
        publish: Optional[str] = None, model_id: str = "", folder: Optional[Path] = None,
        parent: Optional[str] = None, round: Round = "synchronous", quorum: int = 0,
        deadline: float = 0, grace: tuple[float, float] = (0, 0), late_factor: float = 0,
        max_rounds_late: int = 0, key: Optional[Path] = None,
        contributors: Optional[Path] = None, secret: Optional[Path] = None,
        certificates: Optional[Path] = None, insecure: Optional[bool] = None,
    ) -> State:  # fmt: skip
        """Serves workers (:class:`Worker`) until it is closed. Call :meth:`next` for each round.

        Args:
            state: the model: as many elements as the aggregator. It holds the newest version.
            listen: "HOST:PORT" for workers; None: a free port of the loopback interface. Other
                interfaces need `secret`, `certificates` or `insecure`.
            publish: "HOST:PORT" for results, also for subscribers that only follow the model.
            model_id: workers must pass the same.
            folder: keeps the rounds, so that another process goes on where this one ends.
            parent: "HOST:PORT" of an aggregator that decides what counts; see elastic.h.
            round: when a round ends: "synchronous", "quorum" or "asynchronous".
            quorum: contributions; 0: 1.
            deadline: seconds from a round's first contribution to its end; 0: 600.
            grace: bounds of the window in which late workers still count.
            late_factor: of a late contribution's weight, for each round; 0: 1.
            max_rounds_late: later contributions are refused; 0: 1,024.
            key: file of keys that sign results.
            contributors: file of public keys, one of which must have signed a contribution.
            secret: file of role publish: connections are encrypted, and workers need a secret.
            certificates: folder of certificates, in place of `secret`.
            insecure: True: whoever reaches the port reads the weights, and contributes.

        Returns:
            The state.
        """
        if not isinstance(grace, (tuple, list)) or len(grace) != 2:
            raise TypeError(f"grace is {grace!r}: it is two numbers of seconds")
        options = fill(
            _core.ServeOptions(), listen=listen, publish=publish, parent=parent, model_id=model_id,
            folder=text_path(folder, "folder"), key_path=text_path(key, "key"),
            contributors_path=text_path(contributors, "contributors"),
            secret_path=text_path(secret, "secret"),
            certificates_path=text_path(certificates, "certificates"), deadline=deadline,
            late_factor=late_factor, grace_min=real(grace[0], "grace"),
            grace_max=real(grace[1], "grace"), max_rounds_late=max_rounds_late, quorum=quorum,
            round=number_of(ROUND, round, "round"), insecure=toggle(insecure, "insecure"),
        )  # fmt: skip
        weights = as_state(state, writeable=True)
        _core.aggregator_serve(self._handle, weights._state, options)
        return weights

    @property
    def address(self) -> str:
        """Where workers connect, while it serves: "HOST:PORT"."""
        return _core.aggregator_addresses(self._handle)[0]

    @property
    def results_address(self) -> str:
        """Where versions are published, while it serves; "" with a parent."""
        return _core.aggregator_addresses(self._handle)[1]

    def next(self, timeout: Optional[float] = None) -> _core.RoundReport:
        """Waits for the end of a round, and publishes its result.

        Args:
            timeout: seconds until :class:`TimeoutError`; None: no limit. The round goes on.
        """
        return _with_limit(_core.aggregator_next, timeout, self._handle)


class Worker(_Ended):
    """A worker of an :class:`Aggregator` that serves: it may join, die and come back.

    It gets a version of the model, trains, and contributes what has changed.
    """

    def __init__(
        self, state: Union[State, Tensors], address: str, *, model_id: str = "", keep: int = 0,
        number: int = 0, wire: Wire = "same", key: Optional[Path] = None,
        trust: Optional[Path] = None, secret: Optional[Path] = None,
        certificates: Optional[Path] = None, relay: Optional[bool] = None,
    ):  # fmt: skip
        """Starts a worker, which connects, and connects again after each failure.

        Args:
            state: tensors with the aggregator's names, types, shapes and order.
            address: "HOST:PORT" of the aggregator, or several with commas between them.
            model_id: of the aggregator.
            keep: elements of a contribution at most, those that changed most; 0: all. The rest is
                kept for later ones.
            number: of this worker, from 1 on; sums then have the same bits in every run. 0: the
                aggregator chooses one.
            wire: type of values: "same", "bfloat16", "int8", "int4" or "int2".
            key: file of keys that sign contributions.
            trust: file of public keys, one of which must have signed a version.
            secret: file of role replicate.
            certificates: folder of certificates, in place of `secret`.
            relay: pass versions on to other workers.
        """
        options = fill(
            _core.WorkerOptions(), model_id=model_id, keep=keep, number=number,
            wire=number_of(WIRE, wire, "wire"), key_path=text_path(key, "key"),
            trust_path=text_path(trust, "trust"), secret_path=text_path(secret, "secret"),
            certificates_path=text_path(certificates, "certificates"), relay=toggle(relay, "relay"),
        )  # fmt: skip
        self.state = as_state(state, writeable=True)
        self._handle = _core.worker_create(self.state._state, text(address, "address"), options)
        _open.add(self)

    def next(self, timeout: Optional[float] = None) -> int:
        """Waits for a newer version and writes it to the tensors, over what was trained.

        Args:
            timeout: seconds until :class:`TimeoutError` (:class:`RemoteError`: the aggregator is
                not there; the worker goes on trying); None: no limit.

        Returns:
            The version.
        """
        return _with_limit(self._handle.next, timeout)

    def contribute(self, weight: float = 1.0) -> None:
        """Contributes what has changed since the version that the tensors started from; once for
        each version. Does not wait for the network.

        Args:
            weight: such as the tokens that it has trained on.
        """
        self._handle.contribute(real(weight, "weight"))

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until all contributions are in committed rounds, or were refused."""
        _with_limit(self._handle.flush, timeout)

    @property
    def stats(self) -> _core.WorkerStats:
        """Facts of the worker, since it was created."""
        return self._handle.stats()


def aggregate(
    comm: Comm, values: Any, indices: Any, count: int, weight: float,
    aggregator: Optional[Aggregator], capacity: int, ranks: Sequence[int], stream: Any,
) -> tuple[Any, Any]:  # fmt: skip
    count, capacity = whole(count, "count"), whole(capacity, "capacity")
    likely = count if aggregator else min(count, count_of(values, "values") * comm.size)
    room = capacity or max(1, likely)
    if aggregator is not None and not isinstance(aggregator, Aggregator):
        raise TypeError(f"aggregator is {aggregator!r}: pass a sparcl.Aggregator")
    handle = None if aggregator is None else aggregator._handle
    while True:
        out = vector_like(values, room, "values")
        places = vector_like(indices, room, "indices")
        nnz, fits = _core.aggregate(
            comm._comm, values, indices, count, real(weight, "weight"), out, places, handle,
            wholes(ranks, "ranks", most=2**31 - 1), stream_of(stream),
        )  # fmt: skip
        if fits:
            return out[:nnz], places[:nnz]
        room = max(nnz, 1)
