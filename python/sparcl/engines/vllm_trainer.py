"""Weight transfer backend "sparcl" of vLLM: the engine of the trainer. See vllm.py for versions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine

from .._errors import InvalidArgumentError
from ._staged import Staged


@dataclass
class SparclTrainerInitInfo(TrainerInitInfo):
    """What the trainer's engine is made of.

    Attributes:
        listen: of the publisher: "HOST:PORT"; None: a free port of the loopback interface.
        publisher: other options of :class:`sparcl.Publisher`.
        worker: fields of :class:`sparcl.engines.vllm.SparclInitInfo`.
    """

    backend: ClassVar[str] = "sparcl"

    listen: Optional[str] = None
    publisher: dict[str, Any] = field(default_factory=dict)
    worker: dict[str, Any] = field(default_factory=dict)


class SparclTrainerWeightTransferEngine(TrainerWeightTransferEngine[SparclTrainerInitInfo]):
    """The trainer's engine. Rank 0 publishes; the other ranks take part in gathering tensors."""

    init_info_cls = SparclTrainerInitInfo

    @classmethod
    def trainer_init(
        cls, init_info: SparclTrainerInitInfo, *, client: Any, source: Any = None
    ) -> SparclTrainerWeightTransferEngine:
        if source is None:
            raise InvalidArgumentError("source is None: pass a WeightSource, such as ModuleSource")
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        engine.staged = Staged(init_info.listen, **init_info.publisher)
        if engine.is_sender:
            client.init_weight_transfer_engine(dict(init_info.worker))
        return engine

    def send_weights(self) -> int:
        """Publishes the source's tensors, and has the engine load them.

        If the engine refuses, it serves the version before, and the error says why.

        Returns:
            The version; 0 on ranks other than 0.
        """
        if not self.is_sender:
            for _ in self.source:  # gathering is collective
                pass
            return 0
        version = self.staged.publish(self.source)
        self.client.start_weight_update()
        try:
            self.client.update_weights(self.staged.update_info(version))
        except BaseException:
            self._finish(None)  # else the engine refuses the next update
            raise
        self._finish(str(version))
        return version

    def _finish(self, version: Optional[str]) -> None:
        finish = self.client.finish_weight_update
        if version is not None and "weight_version" in inspect.signature(finish).parameters:
            finish(weight_version=version)
        else:
            finish()

    def shutdown(self) -> None:
        self.staged.close()
