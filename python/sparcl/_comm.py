"""Communicators and their collectives."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import _core
from ._arrays import count_of, like, name_of_type, numpy_type, stream_of, vector_like
from ._choices import (
    COMMIT, DETERMINISM, OP, OUTSIDE, VERIFY, WIRE, Commit, Determinism, Mode, Op, Outside,
    Residual, Rounding, Select, Values, Verify, Wire, fill, handle_of, number_of, text, toggle,
    whole, word,
)  # fmt: skip
from ._errors import BY_CODE, Error, InvalidArgumentError
from ._feedback import Feedback, Mask
from ._options import top_k_options, update_options
from ._state import State

if TYPE_CHECKING:
    from ._aggregate import Aggregator


def unique_id() -> bytes:
    """Makes the id of one communicator: 128 bytes, to be passed to all ranks by any means.

    A thread of this process serves the id: the process must live until all ranks have joined.
    Every process that knows the id can join: keep it secret.
    """
    return _core.unique_id()


def _config(
    transport: Optional[str], timeout: float, liveness: float, verify: Verify,
    determinism: Determinism, threads: int, heartbeat: Optional[bool],
) -> _core.Config:  # fmt: skip
    return fill(
        _core.Config(), transport=transport, timeout=timeout, liveness=liveness,
        verify=number_of(VERIFY, verify, "verify"),
        determinism=number_of(DETERMINISM, determinism, "determinism"), threads=threads,
        heartbeat=toggle(heartbeat, "heartbeat"),
    )  # fmt: skip


def _feedback(feedback: Any) -> Any:
    return None if feedback is None else handle_of(feedback, "feedback", "Feedback")


# The library says which ranks there are.
def _rank(value: Any, argument: str) -> int:
    return whole(value, argument, -(2**31), 2**31 - 1)


class Request:
    """A call in flight. ``request.wait()`` or ``await request`` gives what the call returns.

    Arrays of the call must not change until it is over; they are kept alive until then. Requests
    go on inside the calls of their communicator, ``test()`` and ``wait()``. ``await`` tests again
    and again, so that other tasks run meanwhile.
    """

    def __init__(self, call: _core.Request, result: Any):
        self._call = call
        self._result = result

    def test(self) -> bool:
        """Whether the call is over; does not block. Raises what the call failed with."""
        return self._call.test()

    def wait(self) -> Any:
        """Waits for the call, and returns its result."""
        self._call.wait()
        return self._finish()

    @property
    def report(self) -> Optional[_core.Report]:
        """Figures of the call; None until it is over."""
        return self._call.report if self._call.done else None

    def _finish(self) -> Any:
        return self._result(self._call) if callable(self._result) else self._result

    def __await__(self) -> Generator[Any, None, Any]:
        return self._poll().__await__()

    async def _poll(self) -> Any:
        pause = 0.0
        while not self._call.test():
            await asyncio.sleep(pause)
            pause = min(pause * 1.5 + 1e-6, 1e-3)
        return self._finish()


class Comm:
    """A communicator: the ranks that exchange, as processes or as threads of one process.

    All ranks make the same collective calls in the same order. Arrays are NumPy arrays, torch
    tensors, or other arrays with DLPack or the buffer protocol; contiguous ones
    are passed without a copy. Argument,
    usage and data errors of a call are agreed: every rank raises the same exception, and outputs
    are unchanged. After :class:`TimeoutError`, :class:`RemoteError` or :class:`SystemError` the
    communicator is poisoned, and outputs may be partially written. An argument
    that the package itself refuses (an unknown word, a read-only output) makes no call: call
    :meth:`refuse` then, or the other ranks wait until their time limit. One thread at a time uses
    a communicator. Ctrl-C in a call aborts the communicator, here and on the other ranks.

    Make one with :meth:`local`, :meth:`from_env`, :meth:`from_mpi`, :meth:`from_id` or
    :meth:`from_torch`.
    """

    def __init__(self, handle: _core.Comm):
        self._comm = handle
        self._rank = handle.rank()
        self._count = handle.count()

    # --- making and ending ---

    @classmethod
    def local(cls, n: int) -> list[Comm]:
        """Makes a communicator whose `n` ranks are threads of this process.

        Returns:
            One communicator for the thread of each rank.
        """
        return [cls(each) for each in _core.comm_local(_rank(n, "n"))]

    @classmethod
    def from_id(
        cls, id: bytes, count: int, rank: int, *, transport: Optional[str] = None,
        timeout: float = 0, liveness: float = 0, verify: Verify = "default",
        determinism: Determinism = "default", threads: int = 0, heartbeat: Optional[bool] = None,
    ) -> Comm:  # fmt: skip
        """Makes a communicator of `count` processes or threads over UCX. Waits for all ranks.

        Args:
            id: bytes of :func:`unique_id`, the same on all ranks.
            rank: 0 to count - 1, each once.
            transport: "ucx", "loopback" or "auto"; None: the variable SPARCL_TRANSPORT.
            timeout: seconds to wait for a live but late peer; 0: SPARCL_TIMEOUT_S, else 600.
            liveness: seconds after which a silent peer counts as stopped; 0: SPARCL_LIVENESS_S.
            verify: what each rank checks of its base: "off", "touched" (old values at changed
                positions) or "full" (a hash of the whole state).
            determinism: of sums: "runs" (run-to-run reproducible), "canonical" (also across
                algorithms and transports) or "fast" (today the same as "runs").
            threads: that encode and apply, with the caller's.
            heartbeat: whether dead peers are noticed without a call.
        """
        config = _config(transport, timeout, liveness, verify, determinism, threads, heartbeat)
        count, rank = _rank(count, "count"), _rank(rank, "rank")
        if not isinstance(id, bytes):
            raise TypeError(f"id is a {type(id).__name__}: pass the bytes of sparcl.unique_id()")
        return cls(_core.comm_from_id(count, id, rank, config))

    @classmethod
    def from_env(cls, **options: Any) -> Comm:
        """Makes a communicator of the processes that a launcher has started.

        Reads the variables of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), of Slurm
        (SLURM_PROCID, SLURM_NTASKS, ...) or of mpirun. A process without them is one rank alone.
        docs/guides/python.md tells which port is used.

        Args:
            options: those of :meth:`from_id`.
        """
        from . import _launch

        return _launch.from_env(cls, **options)

    @classmethod
    def from_torch(cls, group: Any = None, **options: Any) -> Comm:
        """Makes a communicator of the ranks of a torch.distributed process group.

        Args:
            group: None: all processes of torch.distributed.
            options: those of :meth:`from_id`.
        """
        from . import _launch

        return _launch.from_torch(cls, group, **options)

    @classmethod
    def from_mpi(
        cls, comm: Any, *, transport: Optional[str] = None, timeout: float = 0,
        liveness: float = 0, verify: Verify = "default", determinism: Determinism = "default",
        threads: int = 0, heartbeat: Optional[bool] = None,
    ) -> Comm:  # fmt: skip
        """Makes a communicator over the ranks of a communicator of mpi4py, which is duplicated.

        Args:
            comm: an mpi4py.MPI.Comm.
            transport: "mpi", "ucx" or "auto". The other options are those of :meth:`from_id`.
        """
        from . import mpi

        config = _config(transport, timeout, liveness, verify, determinism, threads, heartbeat)
        return cls(mpi.init(comm, config))

    def __reduce__(self) -> Any:
        raise TypeError("a sparcl.Comm cannot be copied or sent to another process")

    def close(self) -> None:
        """Ends the communicator. Pending requests end with :class:`RemoteError`."""
        self._comm.close()

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._comm.closed else ""
        return f"<sparcl.Comm rank {self._rank} of {self._count}{closed}>"

    @property
    def rank(self) -> int:
        """The rank of the caller, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._count

    @property
    def failed_rank(self) -> Optional[int]:
        """The rank that poisoned the communicator; None: it is usable, or no rank is to blame."""
        rank = self._comm.failed_rank()
        return None if rank < 0 else rank

    @property
    def error(self) -> Optional[type[Error]]:
        """The kind of error that poisoned the communicator; None: it is usable. From any thread."""
        code = self._comm.async_error()
        return BY_CODE[code] if code else None

    @property
    def last_report(self) -> _core.Report:
        """Figures of the last blocking call, or of the last request that was waited for."""
        return self._comm.last_report()

    def abort(self) -> None:
        """Ends all pending calls with :class:`RemoteError`, here and on the peers. Any thread."""
        self._comm.abort()

    def refuse(self, why: str = "") -> None:
        """Takes part in the next collective of the other ranks with a refusal.

        All ranks, this one included, get :class:`InvalidArgumentError` with `why`.
        """
        self._comm.refuse(text(why, "why"))

    def shrink(self) -> Comm:
        """Makes a communicator of the live ranks after a failure, in their old order.

        Collective over the live ranks.
        """
        return Comm(self._comm.shrink())

    def use_nccl(self, id: Optional[bytes] = None, nccl_comm: int = 0) -> None:
        """Lets blocking calls on device arrays send from GPU to GPU by NCCL.

        Args:
            id: an ncclUniqueId, the same on all ranks; None: rank 0 makes one.
            nccl_comm: address of an ncclComm_t of the same ranks; 0: one is made.
        """
        if id is not None and not isinstance(id, bytes):
            raise TypeError(f"id is {id!r}: it is the bytes of an ncclUniqueId, or None")
        self._comm.use_nccl(id, whole(nccl_comm, "nccl_comm"))

    def synchronise(self, stream: Any = None) -> None:
        """Waits for a stream, and watches the other ranks meanwhile; after :meth:`use_nccl`."""
        self._comm.synchronise(stream_of(stream))

    # --- broadcasts ---

    def broadcast_delta(
        self, weights: Any, base: Any = None, *, root: int = 0, algorithm: Optional[str] = None,
        verify: Verify = "default", commit: Commit = "default", stream: Any = None,
    ) -> Any:  # fmt: skip
        """Broadcasts what changed in one array.

        Args:
            weights: on the root the new state, only read. On the others the base on entry, and
                the root's state, bit for bit, on return.
            base: on the root: what all ranks hold. None: unknown, all is sent.
            verify: what ranks check of their base: "off", "touched" or "full".
            commit: when this rank writes: "staged", "early" or "default".
            stream: of arrays in device memory: a CUDA stream of torch or CuPy; None: the default.

        Returns:
            weights.
        """
        self._broadcast_delta(
            False, weights, base, root=root, algorithm=algorithm, verify=verify, commit=commit,
            stream=stream,
        )  # fmt: skip
        return weights

    def i_broadcast_delta(self, weights: Any, base: Any = None, **options: Any) -> Request:
        """:meth:`broadcast_delta`, non-blocking, with the same arguments."""
        return Request(self._broadcast_delta(True, weights, base, **options), weights)

    def _broadcast_delta(
        self, is_async, weights, base, *, root=0, algorithm=None, verify="default",
        commit="default", stream=None,
    ):  # fmt: skip
        return _core.broadcast_delta(
            self._comm, weights, base, _rank(root, "root"), word(algorithm, "algorithm"),
            number_of(VERIFY, verify, "verify"), number_of(COMMIT, commit, "commit"),
            stream_of(stream), is_async,
        )  # fmt: skip

    def broadcast_update(
        self, state: State, version: int = 0, *, root: int = 0, algorithm: Optional[str] = None,
        select: Select = "all", threshold: float = 0, count: int = 0, bytes: int = 0,
        grid: Any = "bfloat16", values: Values = "exact", rounding: Rounding = "nearest",
        seed: int = 0, adopt: Optional[bool] = None, verify: Verify = "default", stream: Any = None,
    ) -> int:  # fmt: skip
        """Broadcasts what changed in a model.

        Args:
            version: of the new state: 1 or more, and larger on each call. Other ranks pass the
                same, or 0 for the root's.
            select: which changes: "all", "threshold", "top_k" (`count` of them), "grid" (those
                that are visible in the type `grid`) or "bytes" (what fits so many).
            values: "exact", "int8" or "float8".
            rounding: of codes: "nearest" or "stochastic" (with `seed`).
            adopt: the root's tensors become what the other ranks hold.

        Returns:
            The version that the state now holds.
        """
        self._broadcast_update(
            False, state, version, root=root, algorithm=algorithm, select=select,
            threshold=threshold, count=count, bytes=bytes, grid=grid, values=values,
            rounding=rounding, seed=seed, adopt=adopt, verify=verify, stream=stream,
        )  # fmt: skip
        return state.version

    def i_broadcast_update(self, state: State, version: int = 0, **options: Any) -> Request:
        """:meth:`broadcast_update`, non-blocking, with the same arguments."""
        call = self._broadcast_update(True, state, version, **options)
        return Request(call, lambda _: state.version)

    def _broadcast_update(
        self, is_async, state, version, *, root=0, algorithm=None, stream=None, **selection
    ):
        if self._rank != root and not getattr(state, "_writeable", True):
            raise InvalidArgumentError(
                "the state was made with writeable=False, and the broadcast writes its tensors "
                "on this rank: make another state of them"
            )
        options = update_options(**selection)
        if isinstance(state, State):
            state.check_places()
        return _core.broadcast_update(
            self._comm, handle_of(state, "state", "State"), whole(version, "version"),
            _rank(root, "root"), options, word(algorithm, "algorithm"), stream_of(stream), is_async,
        )  # fmt: skip

    def broadcast_sparse(
        self, values: Any = None, indices: Any = None, *, root: int = 0, dtype: Any = "float32",
        capacity: int = 65536, algorithm: Optional[str] = None, verify: Verify = "default",
        stream: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Broadcasts a sparse vector.

        Args:
            values: on the root: the values.
            indices: on the root: their element numbers, strictly ascending, int64 or uint64.
            dtype: on the other ranks: type of the values.
            capacity: on the other ranks: entries that fit at the first try. If they do not, all
                ranks call a second time.

        Returns:
            values and indices, on every rank.
        """
        options = (
            word(algorithm, "algorithm"), number_of(VERIFY, verify, "verify"), stream_of(stream),
        )  # fmt: skip
        is_root = self._rank == _rank(root, "root")
        room = count_of(values, "values") if is_root else whole(capacity, "capacity")
        while True:
            if not is_root:
                values = np.empty(room, numpy_type(name_of_type(dtype)))
                indices = np.empty(room, np.uint64)
            nnz, fits = _core.broadcast_sparse(
                self._comm, values, indices, room if is_root else 0, root, *options
            )
            if fits:
                return (values, indices) if is_root else (values[:nnz], indices[:nnz])
            room = room if is_root else nnz

    # --- sums ---

    def all_reduce_masked(
        self, x: Any, mask: Mask, *, op: Op = "sum", out: Any = None,
        feedback: Optional[Feedback] = None, outside: Outside = "keep",
        algorithm: Optional[str] = None, determinism: Determinism = "default", stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduces the elements of a mask over all ranks.

        Args:
            x: this rank's array, only read.
            op: "sum", "avg", "max", "min" or "prod".
            out: the result; may be `x`. None: a new array, with zeros outside the mask.
            feedback: of this rank, for "sum" and "avg".
            outside: elements of `out` outside the mask: "keep" leaves them, "zero" clears them.

        Returns:
            out.
        """
        _, out = self._all_reduce_masked(
            False, x, mask, op=op, out=out, feedback=feedback, outside=outside,
            algorithm=algorithm, determinism=determinism, stream=stream,
        )  # fmt: skip
        return out

    def i_all_reduce_masked(self, x: Any, mask: Mask, **options: Any) -> Request:
        """:meth:`all_reduce_masked`, non-blocking, with the same arguments."""
        return Request(*self._all_reduce_masked(True, x, mask, **options))

    def _all_reduce_masked(
        self, is_async, x, mask, *, op="sum", out=None, feedback=None, outside="keep",
        algorithm=None, determinism="default", stream=None,
    ):  # fmt: skip
        if out is None:
            out, outside = like(x), "zero"
        call = _core.all_reduce_masked(
            self._comm, x, out, number_of(OP, op, "op"), handle_of(mask, "mask", "Mask"),
            _feedback(feedback), word(algorithm, "algorithm"),
            number_of(OUTSIDE, outside, "outside"),
            number_of(DETERMINISM, determinism, "determinism"), stream_of(stream), is_async,
        )  # fmt: skip
        return call, out

    def all_reduce_top_k(
        self, x: Any, k: int, *, op: Op = "sum", out: Any = None,
        feedback: Optional[Feedback] = None, mode: Mode = "union", wire: Wire = "same",
        determinism: Determinism = "default", residual: Residual = "sent",
        reuse_threshold: Optional[bool] = None, device_kernels: Optional[bool] = None,
        tensors: Sequence[int] = (), algorithm: Optional[str] = None, stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduces the `k` largest elements of each rank.

        Args:
            x: this rank's array, only read.
            k: the same on all ranks, at most the number of elements.
            op: "sum" or "avg".
            out: the result, all written; may be `x`. None: a new array.
            feedback: of this rank; None: what is not sent is discarded.
            mode: "union": all ranks contribute at every element that any rank selected.
                "selected": each rank at its own. "global": of these, only the k largest sums stay.
            wire: type of values between ranks: "same", "bfloat16", "int8", "int4" or "int2".
            residual: "sent": what this rank did not send; "mean": the distance to the mean.
            reuse_threshold: start from the last call's threshold.
            tensors: lengths of the tensors that `x` is made of: each gets its share of k.

        Returns:
            out.
        """
        _, out = self._all_reduce_top_k(
            False, x, k, op, out, feedback, mode, wire, determinism, residual, reuse_threshold,
            device_kernels, tensors, algorithm, stream,
        )  # fmt: skip
        return out

    def i_all_reduce_top_k(self, x: Any, k: int, **options: Any) -> Request:
        """:meth:`all_reduce_top_k`, non-blocking, with the same arguments."""
        return Request(*self._all_reduce_top_k(True, x, k, **options))

    def _all_reduce_top_k(
        self, is_async, x, k, op="sum", out=None, feedback=None, mode="union", wire="same",
        determinism="default", residual="sent", reuse_threshold=None, device_kernels=None,
        tensors=(), algorithm=None, stream=None,
    ):  # fmt: skip
        if out is None:
            out = like(x)
        options = top_k_options(
            mode, wire, determinism, residual, reuse_threshold, device_kernels, tensors, algorithm,
        )  # fmt: skip
        call = _core.all_reduce_top_k(
            self._comm, x, out, whole(k, "k"), number_of(OP, op, "op"),
            _feedback(feedback), options, stream_of(stream), is_async,
        )  # fmt: skip
        return call, out

    def all_reduce_sparse(
        self, values: Any, indices: Any, count: int, *, op: Op = "sum", capacity: int = 0,
        determinism: Determinism = "default", wire: Wire = "same", algorithm: Optional[str] = None,
        stream: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Reduces sparse vectors with any supports; every rank gets the union.

        Args:
            values: of this rank.
            indices: their element numbers below `count`, in any order, int64 or uint64.
                Duplicates combine in input order.
            count: length of the vectors, the same on all ranks.
            op: "sum", "avg", "max", "min" or "prod".
            capacity: entries of the union that fit at the first try; 0: as if all ranks had as
                many as this one. If they do not, all ranks call a second time.

        Returns:
            values and indices of the union, ascending.
        """
        while True:
            (nnz, fits), out, places = self._all_reduce_sparse(
                False, values, indices, count, op=op, capacity=capacity, determinism=determinism,
                wire=wire, algorithm=algorithm, stream=stream,
            )  # fmt: skip
            if fits:
                return out[:nnz], places[:nnz]
            capacity = max(nnz, 1)

    def i_all_reduce_sparse(
        self, values: Any, indices: Any, count: int, **options: Any
    ) -> Request:
        """:meth:`all_reduce_sparse`, non-blocking, with the same arguments.

        The request raises :class:`TruncatedError` if the union exceeds `capacity` on a rank.
        """
        call, out, places = self._all_reduce_sparse(True, values, indices, count, **options)
        return Request(call, lambda done: (out[: done.nnz()], places[: done.nnz()]))

    def _all_reduce_sparse(
        self, is_async, values, indices, count, *, op="sum", capacity=0, determinism="default",
        wire="same", algorithm=None, stream=None,
    ):  # fmt: skip
        count, capacity = whole(count, "count"), whole(capacity, "capacity")
        room = capacity or max(1, min(count, count_of(values, "values") * self._count))
        out = vector_like(values, room, "values")
        places = vector_like(indices, room, "indices")
        options = _core.SparseOptions(
            word(algorithm, "algorithm"), number_of(DETERMINISM, determinism, "determinism"),
            number_of(WIRE, wire, "wire"),
        )  # fmt: skip
        call = _core.all_reduce_sparse(
            self._comm, values, indices, count, out, places, number_of(OP, op, "op"), options,
            stream_of(stream), is_async,
        )  # fmt: skip
        return call, out, places

    def aggregate(
        self, values: Any, indices: Any, count: int, *, weight: float = 1.0,
        aggregator: Optional[Aggregator] = None, capacity: int = 0, ranks: Sequence[int] = (),
        stream: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """One round of an aggregator: each rank contributes a sparse update, all get the result.

        Args:
            values: of this rank; float32 or smaller.
            indices: their element numbers below `count`, in any order, int64 or uint64.
            count: length of the vectors, the same on all ranks.
            weight: of this rank's contribution, such as the tokens behind it.
            aggregator: at the same round on all ranks; None: a mean by weight.
            capacity: entries of the result that fit at the first try; the same on all ranks. 0: of
                an aggregator all elements.
            ranks: that aggregate, ascending; (): all.

        Returns:
            values and indices of the result, ascending.
        """
        from . import _aggregate

        return _aggregate.aggregate(
            self, values, indices, count, weight, aggregator, capacity, ranks, stream
        )
