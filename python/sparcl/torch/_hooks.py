"""Hooks for DistributedDataParallel: sparse all-reduces in place of the dense one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch

from .._choices import MODE, WIRE, number_of, real
from .._comm import Comm, Request
from .._errors import Error, InvalidArgumentError
from .._feedback import Mask
from ._waiting import Bucket, Waiting


@dataclasses.dataclass(frozen=True)
class WarmUp:
    """A schedule of the density: from `start` down to the final ratio, by equal factors.

    In the first steps gradients are large and change fast; a higher density helps (DGC).

    Attributes:
        steps: until the final ratio is reached.
        start: ratio of the first step.
        stages: 0: a new ratio at each step; else so many, each for steps / stages steps.
    """

    steps: int
    start: float = 0.25
    stages: int = 0

    def __post_init__(self) -> None:
        if self.steps < 0 or self.stages < 0 or not 0 < self.start <= 1:
            raise InvalidArgumentError(
                f"{self}: steps and stages are 0 or more, start is above 0 and at most 1"
            )

    def ratio(self, step: int, final: float) -> float:
        """The ratio of a step, from 0, on the way to `final`."""
        if step >= self.steps or self.start <= final:
            return final
        done = step / self.steps
        if self.stages:
            done = math.floor(done * self.stages) / self.stages
        return self.start * (final / self.start) ** done


@dataclasses.dataclass
class Stats:
    """What a hook has sent on this rank, since it was made or since :meth:`reset`.

    Attributes:
        steps: backward passes whose gradients were reduced.
        bytes_sent: on the wire, headers and agreements included.
        bytes_received: likewise.
        dense_bytes: that a dense ring all-reduce of the same arrays sends: 2 (P - 1) / P of each.
        elements: of the reduced arrays.
        selected: elements that this rank asked for: k of top-k, or those of the mask.
        ratio: of the last step.
    """

    steps: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    dense_bytes: int = 0
    elements: int = 0
    selected: int = 0
    ratio: float = 0.0

    @property
    def sent_fraction(self) -> float:
        """bytes_sent / dense_bytes; 0 before the first step, and with one rank."""
        return self.bytes_sent / self.dense_bytes if self.dense_bytes else 0.0

    def reset(self) -> None:
        """Sets all to zero."""
        self.__init__()  # type: ignore[misc]


@dataclasses.dataclass
class _Pending:
    bucket: Bucket
    target: torch.Tensor  # of DistributedDataParallel
    result: torch.Tensor
    request: Request
    future: Any
    error: Optional[Error] = None

    # Errors are agreed: all ranks start all buckets of a step, and raise when these are over.
    def progress(self) -> None:
        self._do(self.request.test)

    def wait(self) -> None:
        self._do(self.request.wait)

    def _do(self, call: Callable[[], Any]) -> None:
        if self.error is None:
            try:
                call()
            except Error as error:
                self.error = error


class Hook:
    """What the hooks have in common. Use :class:`TopKHook` or :class:`MaskedHook`.

    Sums of arrays in host memory are non-blocking: they start when their bucket is ready, go on
    while later buckets start, and end in the hook of the last bucket, which raises their errors.
    Sums of arrays in device memory are calls in the order of the current stream.
    """

    def __init__(
        self, comm: Comm, ratio: float, feedback: bool, warmup: Optional[WarmUp],
        momentum: Optional[float], restart: float, clip: Optional[float],
    ):  # fmt: skip
        if not isinstance(comm, Comm):
            raise TypeError(f"comm is {comm!r}: pass a sparcl.Comm, as of Comm.from_torch()")
        if not 0 < real(ratio, "ratio") <= 1:
            raise InvalidArgumentError(f"ratio is {ratio}: it is above 0 and at most 1")
        if momentum is not None and not 0 <= momentum < 1:
            raise InvalidArgumentError(f"momentum is {momentum}: it is 0 up to below 1, or None")
        if not 0 <= restart <= 1:
            raise InvalidArgumentError(f"restart is {restart}: it is 0 to 1")
        if clip is not None and not clip > 0:
            raise InvalidArgumentError(f"clip is {clip}: it is above 0, or None")
        self.comm, self.ratio, self.warmup = comm, ratio, warmup
        self.stats = Stats()
        #: The error that ended a backward pass. Some versions of torch raise it as a RuntimeError.
        self.error: Optional[Error] = None
        self._step = 0
        self._clip = None if clip is None else clip / math.sqrt(comm.size)
        self._waiting = Waiting(feedback, momentum, restart)
        self._names: dict[int, str] = {}  # of parameters, by identity
        self._parameters: list[Any] = []  # keeps these identities
        self._pending: list[_Pending] = []

    # --- registering ---

    # Without annotations: torch compares them with its own types.
    @staticmethod
    def run(hook, bucket):  # type: ignore[no-untyped-def]
        """The communication hook: ``ddp.register_comm_hook(hook, TopKHook.run)``."""
        return hook._run(bucket)

    def register(self, model: Any) -> None:
        """Registers the hook with a DistributedDataParallel model, and learns its names.

        The state of a hook then belongs to names. Without this call it belongs to the order in
        which parameters first come.
        """
        if not hasattr(model, "register_comm_hook"):
            raise TypeError(
                f"model is a {type(model).__name__}: pass a torch DistributedDataParallel"
            )
        self.name_parameters(getattr(model, "module", model))
        model.register_comm_hook(self, type(self).run)

    def name_parameters(self, module: torch.nn.Module) -> None:
        """Learns the names of the parameters of a module."""
        for name, parameter in module.named_parameters():
            self._names[id(parameter)] = name
            self._parameters.append(parameter)

    # --- saving ---

    def state_dict(self) -> dict[str, Any]:
        """This rank's state: the step, and what waits for each parameter. Save it on every rank."""
        return {
            "step": self._step, "rank": self.comm.rank, "size": self.comm.size,
            "waiting": self._waiting.save(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Takes the state of :meth:`state_dict`, of the same rank of as many ranks.

        Args:
            strict: False: a state of another rank or another number of ranks is taken, too.
        """
        missing = {"rank", "size", "step", "waiting"} - set(state)
        if missing:
            raise InvalidArgumentError(
                f"the state lacks {', '.join(sorted(missing))}: pass what state_dict() gave"
            )
        saved, own = (state["rank"], state["size"]), (self.comm.rank, self.comm.size)
        if strict and saved != own:
            raise InvalidArgumentError(
                f"the state is of rank {saved[0]} of {saved[1]}, this is rank {own[0]} of "
                f"{own[1]}: load this rank's file, start without a state, or pass strict=False"
            )
        self._pending = []
        self._step = int(state["step"])
        self._waiting.load(state["waiting"])

    def residual_l2(self) -> float:
        """L2 norm of what this rank has not sent yet; reads all of it."""
        return self._waiting.residual_l2()

    @property
    def step(self) -> int:
        """Steps that this hook has reduced, those before a save included."""
        return self._step

    # --- reducing ---

    def _run(self, bucket: Any) -> Any:
        if bucket.index() == 0:
            self._pending = []  # of a step that failed
        tensor = bucket.buffer()
        layout = tuple((self._name_of(each), each.numel()) for each in bucket.parameters())
        if sum(count for _, count in layout) != tensor.numel():
            layout = ((f"bucket {bucket.index()}", tensor.numel()),)
        held = self._waiting.bucket(bucket.index(), layout)
        if tensor.device.type != "cpu":
            future = torch.futures.Future(devices=[tensor.device])
            self._reduce_now(held, tensor)
            future.set_result(tensor)
        else:
            future = torch.futures.Future()
            self._pending.append(self._started(held, tensor, future))
            self._pending[-1].progress()  # and with it those before
        if bucket.is_last():
            self._finish()
        return future

    def _name_of(self, parameter: Any) -> str:
        name = self._names.get(id(parameter))
        if name is None:
            name = self._names[id(parameter)] = str(len(self._parameters))
            self._parameters.append(parameter)
        return name

    def _reduce_now(self, held: Bucket, tensor: torch.Tensor) -> None:
        """Reduces an array in place; blocking, or in the order of the stream."""
        value = self._input(held, tensor)
        result = tensor if tensor.dtype == torch.float32 else torch.empty_like(value)
        stream = None
        if tensor.device.type == "cuda":
            stream = torch.cuda.current_stream(tensor.device)
        self._reduce(False, held, value, result, stream)
        self._account(tensor, self.comm.last_report)
        self._ended(held, tensor, result)

    def _started(self, held: Bucket, tensor: torch.Tensor, future: Any) -> _Pending:
        value = self._input(held, tensor)
        result = tensor if tensor.dtype == torch.float32 else torch.empty_like(value)
        return _Pending(held, tensor, result, self._reduce(True, held, value, result, None), future)

    def _input(self, held: Bucket, tensor: torch.Tensor) -> torch.Tensor:
        if self._clip is not None:
            norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float32))
            if norm > self._clip:
                tensor.mul_(self._clip / norm)
        return held.input_of(tensor)

    def _finish(self) -> None:
        pending, self._pending = self._pending, []
        for each in pending:
            each.wait()
        for each in pending:
            if each.error is not None:
                self.error = each.error
                raise each.error
        for each in pending:
            self._account(each.target, each.request.report)
            self._ended(each.bucket, each.target, each.result)
        self._end_step()
        for each in pending:
            each.future.set_result(each.target)

    def _end_step(self) -> None:
        self.stats.steps += 1
        self.stats.ratio = self._ratio()
        self._step += 1

    @staticmethod
    def _ended(held: Bucket, target: torch.Tensor, result: torch.Tensor) -> None:
        held.sent(result)
        if result is not target:
            target.copy_(result)

    def _account(self, tensor: torch.Tensor, report: Any) -> None:
        ranks, count = self.comm.size, tensor.numel()
        self.stats.bytes_sent += report.bytes_sent
        self.stats.bytes_received += report.bytes_received
        self.stats.dense_bytes += 2 * (ranks - 1) * count * tensor.element_size() // ranks
        self.stats.elements += count
        self.stats.selected += self._k(count)

    def _ratio(self) -> float:
        return self.warmup.ratio(self._step, self.ratio) if self.warmup else self.ratio

    def _k(self, count: int) -> int:
        return min(count, max(1, round(self._ratio() * count)))

    def _reduce(
        self, is_async: bool, held: Bucket, value: torch.Tensor, result: torch.Tensor, stream: Any
    ) -> Any:
        raise NotImplementedError


class TopKHook(Hook):
    """Each rank sends the largest elements of its gradients, and keeps the rest for later steps.

    With `momentum` the hook applies the momentum itself, as Deep Gradient Compression does (Lin et
    al., ICLR 2018): give the optimiser none. The communicator is used in the backward pass only by
    the hook.
    """

    def __init__(
        self, comm: Comm, ratio: float = 0.01, *, mode: str = "union", feedback: bool = True,
        wire: str = "same", warmup: Optional[WarmUp] = None, momentum: Optional[float] = None,
        restart: float = 1.0, clip: Optional[float] = None, per_tensor: bool = False,
        reuse_threshold: bool = False,
    ):  # fmt: skip
        """Makes a hook; the same on all ranks.

        Args:
            ratio: elements of each bucket that a rank selects, of all.
            mode: "union", "selected" or "global", as in :meth:`Comm.all_reduce_top_k`.
            feedback: keep what is not sent. False: it is lost.
            wire: type of values between ranks: "same", "bfloat16", "int8", "int4" or "int2".
            warmup: of the ratio.
            momentum: of this rank's gradients, before the selection; None: none.
            restart: share of the momentum that ends at sent elements: 1 as in DGC; 0: none.
                1 stops steps into directions that are out of date, and makes steps smaller.
            clip: bound of the gradients' L2 norm: each rank scales each bucket's gradients down to
                clip / sqrt(ranks) before anything else; None: off.
            per_tensor: each parameter has its share of the selection; False: a bucket's parameters
                compete.
            reuse_threshold: select faster, if gradients change slowly.
        """
        super().__init__(comm, ratio, feedback, warmup, momentum, restart, clip)
        number_of(MODE, mode, "mode")
        number_of(WIRE, wire, "wire")
        self._options = {"mode": mode, "wire": wire, "reuse_threshold": reuse_threshold or None}
        self._per_tensor = per_tensor

    def _reduce(
        self, is_async: bool, held: Bucket, value: torch.Tensor, result: torch.Tensor, stream: Any
    ) -> Any:
        call = self.comm.i_all_reduce_top_k if is_async else self.comm.all_reduce_top_k
        tensors = [count for _, count in held.layout] if self._per_tensor else ()
        return call(
            value, self._k(value.numel()), op="avg", out=result, feedback=held.feedback,
            tensors=tensors, stream=stream, **self._options,
        )  # fmt: skip


class MaskedHook(Hook):
    """All ranks send the same random elements of their gradients, drawn anew for each step.

    No positions are sent, and the sum is that of a dense call, so that a step costs exactly `ratio`
    of the dense bytes. With feedback an element waits for 1 / ratio steps on average: use a low
    learning rate.
    """

    def __init__(
        self, comm: Comm, ratio: float = 0.01, *, seed: int = 0, block: int = 0,
        feedback: bool = True, warmup: Optional[WarmUp] = None,
        momentum: Optional[float] = None, restart: float = 1.0, clip: Optional[float] = None,
    ):  # fmt: skip
        """Makes a hook; the same on all ranks.

        Args:
            ratio: elements of the mask, of all.
            seed: of the masks, the same on all ranks.
            block: elements are drawn in blocks of so many; 0: one by one.
            feedback, warmup, momentum, restart, clip: as in :class:`TopKHook`.
        """
        super().__init__(comm, ratio, feedback, warmup, momentum, restart, clip)
        self._seed, self._block = seed, block

    def _reduce(
        self, is_async: bool, held: Bucket, value: torch.Tensor, result: torch.Tensor, stream: Any
    ) -> Any:
        call = self.comm.i_all_reduce_masked if is_async else self.comm.all_reduce_masked
        count = value.numel()
        mask = Mask.random(count, self._k(count) / count, self._seed, block=self._block)
        mask.set_step(self._step)
        return call(
            value, mask, op="avg", out=result, feedback=held.feedback, outside="zero",
            stream=stream,
        )  # fmt: skip
