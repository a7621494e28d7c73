"""Weight transfer backend "sparcl" of vLLM: the engine of a worker. The trainer: vllm_trainer.

Written for vLLM 0.25 and later: vllm/distributed/weight_transfer of July 2026, read in vLLM's
repository and documentation. vLLM finds the backend by the entry point vllm.general_plugins of this
package:

    vllm serve MODEL --weight-transfer-config '{"backend": "sparcl"}'

docs/guides/engines.md has the trainer's part, and the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo,
)  # fmt: skip

from .. import Comm
from .._errors import InvalidArgumentError, InvalidUsageError
from ._shadow import Shadow, Weights


@dataclass
class SparclInitInfo(WeightTransferInitInfo):
    """What a worker is told once.

    Attributes:
        timeout: seconds until an update is given up.
        hand_over: "layers": vLLM's layerwise reload gets all tensors of the layers that have
            changed tensors; right for every model. "changed": the changed tensors alone are written
            in place; wrong for models that are quantised, or whose weights vLLM stores in another
            layout (MLA, some mixtures of experts).
        subscriber: options of :class:`sparcl.Subscriber`, such as secret and model_id.
    """

    timeout: float = 600
    hand_over: str = "layers"
    subscriber: dict[str, Any] = field(default_factory=dict)


@dataclass
class SparclUpdateInfo(WeightTransferUpdateInfo):
    """A version: its publisher, the tensors of all its versions, and what part of them changed."""

    version: int
    address: str
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    fraction: float = 1


class SparclWeightTransferEngine(WeightTransferEngine[SparclInitInfo, SparclUpdateInfo]):
    """A worker's engine. The model is written once all workers hold the version, checked."""

    init_info_cls = SparclInitInfo
    update_info_cls = SparclUpdateInfo
    supports_draft_weight_update = False

    _info: Optional[SparclInitInfo] = None
    _shadow: Optional[Shadow] = None
    _comm: Optional[Comm] = None

    def init_transfer_engine(self, init_info: SparclInitInfo) -> None:
        if init_info.hand_over not in ("layers", "changed"):
            raise InvalidArgumentError(
                f'hand_over is {init_info.hand_over!r}: pass "layers" or "changed"'
            )
        if self._comm is not None:
            self._comm.close()
        self._comm = comm_of_workers(init_info.timeout)
        if self._shadow is None:
            self._shadow = Shadow()
        self._shadow.join(self._comm, **init_info.subscriber)
        self._info = init_info

    def start_weight_update(self) -> None:
        """Does nothing: the model stays as it is until the version is there."""

    def receive_weights(self, update_info: SparclUpdateInfo) -> None:
        if self._info is None:
            raise InvalidUsageError(
                "the trainer has not called init_weight_transfer_engine: call it first"
            )
        self._shadow.update(vars(update_info), self._load, self._info.timeout)

    def finish_weight_update(self) -> None:
        """Does nothing: receive_weights has ended the update."""

    def shutdown(self) -> None:
        for each in (self._shadow, self._comm):
            if each is not None:
                each.close()
        self._shadow = self._comm = self._info = None

    @property
    def version(self) -> int:
        """The version that the model has; 0 before the first."""
        return self._shadow.version if self._shadow is not None else 0

    def _load(self, changed: Weights) -> None:
        if not changed:
            return
        if self._info.hand_over == "changed":
            self.model.load_weights(changed)
            return
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.reload import (
            finalize_layerwise_reload, initialize_layerwise_reload,
        )  # fmt: skip

        with set_current_vllm_config(self.vllm_config):
            initialize_layerwise_reload(self.model)
            try:
                self.model.load_weights(self._shadow.whole_layers(changed))
            finally:  # also after a failure: then the old values are loaded
                finalize_layerwise_reload(self.model, self.model_config)

    @staticmethod
    def trainer_send_weights(iterator: Any, trainer_args: Any) -> None:
        raise NotImplementedError("use WeightTransferTrainerFactory with SparclTrainerInitInfo")


def comm_of_workers(timeout: float) -> Optional[Comm]:
    """A communicator of all workers of the engine; None: there is one worker."""
    from vllm.distributed.parallel_state import get_world_group

    group = get_world_group()
    return None if group.world_size == 1 else Comm.from_torch(group.cpu_group, timeout=timeout)
