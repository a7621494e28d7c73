"""Weight sync strategy "sparcl" of SkyRL: how it is installed. The strategy: skyrl_strategy.

Written for skyrl/backends/skyrl_train/weight_sync of August 2026, whose engines are vLLM with the
backend of :mod:`sparcl.engines.vllm`. SkyRL has no registry of strategies: :func:`install` adds
this one to its functions. It must run in the driver and in all workers of Ray:

    ray.init(runtime_env={"worker_process_setup_hook": "sparcl.engines.skyrl.install"})

Then set `generator.inference_engine.weight_sync_backend=sparcl`. docs/guides/engines.md has the
limits.
"""

from __future__ import annotations

import os
from typing import Any, Optional

#: What senders and engines are made of.
options: dict[str, Any] = {"listen": None, "publisher": {}, "worker": {}}


def install(
    listen: Optional[str] = None, *, publisher: Optional[dict[str, Any]] = None,
    worker: Optional[dict[str, Any]] = None,
) -> None:  # fmt: skip
    """Adds the backend "sparcl" to SkyRL, in this process. Further calls change the options.

    Args:
        listen: address of the publisher; None: the variable SPARCL_ENGINES_LISTEN, else a free port
            of the loopback interface.
        publisher: options of :class:`sparcl.Publisher`.
        worker: fields of :class:`sparcl.engines.vllm.SparclInitInfo`.
    """
    from skyrl.backends.skyrl_train import weight_sync
    from skyrl.backends.skyrl_train.inference_servers import utils

    options["listen"] = listen or os.environ.get("SPARCL_ENGINES_LISTEN")
    options["publisher"], options["worker"] = dict(publisher or {}), dict(worker or {})
    name_of, class_of = weight_sync.get_transfer_strategy, weight_sync.get_transfer_strategy_cls
    if name_of.__module__ == __name__:
        return

    def get_transfer_strategy(weight_sync_backend: str, colocate_all: bool) -> str:
        if weight_sync_backend == "sparcl":
            return "sparcl"
        return name_of(weight_sync_backend, colocate_all)

    def get_transfer_strategy_cls(weight_sync_backend: str, colocate_all: bool) -> type:
        if weight_sync_backend == "sparcl":
            from .skyrl_strategy import SparclTransferStrategy

            return SparclTransferStrategy
        return class_of(weight_sync_backend, colocate_all)

    weight_sync.get_transfer_strategy = utils.get_transfer_strategy = get_transfer_strategy
    weight_sync.get_transfer_strategy_cls = get_transfer_strategy_cls
