"""sparcl for PyTorch: hooks for DistributedDataParallel and FSDP2, and outer steps.

>>> import torch, sparcl.torch
>>> hook = sparcl.torch.TopKHook(sparcl.Comm.local(1)[0], ratio=0.01, momentum=0.9)
>>> # hook.register(ddp_model), then train with torch.optim.SGD(..., momentum=0)
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sparcl.torch needs PyTorch ({error}): run `pip install torch`"
    ) from None

from ._elastic import ElasticDiLoCo
from ._hooks import MaskedHook, Stats, TopKHook, WarmUp
from ._outer import DiLoCo, LocalSGD
from ._shards import FSDPHook

__all__ = [
    "DiLoCo", "ElasticDiLoCo", "FSDPHook", "LocalSGD", "MaskedHook", "Stats", "TopKHook", "WarmUp",
]  # fmt: skip
