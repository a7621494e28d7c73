"""Adapters for inference engines and trainers. Each is a module, and imports its engine itself.

==========  ==========================================================================
vllm        weight transfer backend "sparcl" of vLLM: worker and trainer
sglang      weight loader of SGLang, and a hook that feeds `/pull_weights`
slime       hook of slime and miles that publishes each folder they write
verl        checkpoint engine "sparcl" of verl
torchft     checkpoint transport of torchft
skyrl       weight sync strategy "sparcl" of SkyRL
==========  ==========================================================================

:class:`Staged` and :class:`Shadow` are what they are made of. docs/guides/engines.md explains them.
"""

from typing import Any

__all__ = ["Shadow", "Staged", "register_vllm"]


def __getattr__(name: str) -> Any:
    if name == "Shadow":
        from ._shadow import Shadow as found
    elif name == "Staged":
        from ._staged import Staged as found
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def register_vllm() -> None:
    """Registers the backend "sparcl" with vLLM, which calls this entry point in each process."""
    from vllm.distributed.weight_transfer import factory

    for registry, module, name in (
        ("WeightTransferEngineFactory", "vllm", "SparclWeightTransferEngine"),
        ("WeightTransferTrainerFactory", "vllm_trainer", "SparclTrainerWeightTransferEngine"),
    ):
        engines = getattr(factory, registry, None)
        if engines is None:
            raise ImportError(f"this vLLM has no {registry}: sparcl needs vLLM 0.25 or later")
        if "sparcl" not in engines._registry:  # vLLM loads its plugins more than once
            engines.register_engine("sparcl", f"{__name__}.{module}", name)
