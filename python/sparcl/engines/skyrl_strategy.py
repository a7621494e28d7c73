"""Weight sync strategy "sparcl" of SkyRL. See skyrl.py for versions, and how it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from skyrl.backends.skyrl_train.weight_sync.transfer_strategy import (
    WeightSyncInitInfo, WeightTransferSender, WeightTransferStrategy,
)  # fmt: skip

from ._staged import Staged
from .skyrl import options


@dataclass
class SparclInitInfo(WeightSyncInitInfo):
    """What each engine is told once: fields of :class:`sparcl.engines.vllm.SparclInitInfo`."""

    worker: dict[str, Any] = field(default_factory=dict)

    def for_servers(
        self, world_size_per_server: int, num_servers: int, dp_size: int = 1
    ) -> list[SparclInitInfo]:
        return [replace(self) for _ in range(num_servers)]

    def to_api_payload(self) -> dict[str, Any]:
        return dict(self.worker)


class SparclSender(WeightTransferSender):
    """Rank 0 publishes, and has the engines load it; the other ranks take part in gathering."""

    def __init__(self, client: Any):
        self._client = client
        self._staged = Staged(options["listen"], **options["publisher"])

    async def send_chunks(
        self, chunks: Iterable[Any], weight_metadata: Optional[dict[str, Any]] = None, **kwargs: Any
    ) -> None:
        """If an engine refuses, it serves the version before, and the error says why."""
        if _rank() != 0:
            for _ in chunks:  # gathering is collective
                pass
            return
        pairs = (pair for chunk in chunks for pair in zip(chunk.names, chunk.tensors))
        version = await asyncio.to_thread(self._staged.publish, pairs)
        # False: the engine of sparcl itself runs vLLM's layerwise reload.
        await self._client.start_weight_update(is_checkpoint_format=False)
        try:
            await self._client.update_named_weights(self._staged.update_info(version))
        finally:
            await self._client.finish_weight_update()

    def teardown(self) -> None:
        self._staged.close()


class SparclTransferStrategy(WeightTransferStrategy):
    """Makes what SkyRL asks for."""

    @staticmethod
    def create_init_info(
        ie_cfg: Any, inference_world_size: Optional[int] = None,
        base_model_path: Optional[str] = None,
    ) -> SparclInitInfo:  # fmt: skip
        external = not ie_cfg.run_engines_locally
        return SparclInitInfo(override_existing_receiver=external, worker=options["worker"])

    @staticmethod
    def create_sender(init_info: SparclInitInfo, inference_client: Any) -> SparclSender:
        return SparclSender(inference_client)

    @staticmethod
    def get_vllm_transfer_engine() -> type:
        from .vllm import SparclWeightTransferEngine

        return SparclWeightTransferEngine


def _rank() -> int:
    import torch.distributed

    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
