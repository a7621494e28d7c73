"""The all-reduce hook of FSDP2: replicas of a sharded model exchange sparse gradients."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._errors import UnsupportedError
from ._hooks import TopKHook


class FSDPHook(TopKHook):
    """A :class:`TopKHook` for models of ``torch.distributed.fsdp.fully_shard``.

    FSDP2 shards a model over the ranks of one mesh, such as the GPUs of a host, and reduces
    gradients there. The hook then averages each rank's shard over the replicas of the model. Its
    communicator has the ranks that hold the same shard. It needs PyTorch 2.7 or later.
    """

    def register(self, model: Any) -> None:
        """Registers the hook with all FSDP modules of a model. Shard it on a mesh of one dimension:
        with two FSDP2 averages over replicas itself.
        """
        sharded = [
            (name, module) for name, module in model.named_modules()
            if hasattr(module, "set_all_reduce_hook")
        ]  # fmt: skip
        if not sharded:
            raise UnsupportedError(
                "the model has no module with set_all_reduce_hook: apply "
                "torch.distributed.fsdp.fully_shard first, with PyTorch 2.7 or later (this is "
                f"{torch.__version__})"
            )
        self._seen: set[str] = set()
        for name, module in sharded:
            module.set_all_reduce_hook(functools.partial(self._run_shard, name))

    def state_dict(self) -> dict[str, Any]:
        self._close_step()
        return super().state_dict()

    # A step ends when a module comes again: which module is the last one is not known.
    def _close_step(self) -> None:
        if self._seen:
            self._seen.clear()
            self._end_step()

    def _run_shard(self, name: str, gradient: torch.Tensor) -> None:
        if name in self._seen:
            self._close_step()
        self._seen.add(name)
        flat = gradient.view(-1)
        self._reduce_now(self._waiting.bucket(name, ((name, flat.numel()),)), flat)
