"""States of state_dicts: tied tensors once, parts of DTensors as slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from ._arrays import is_torch, place_of
from ._errors import InvalidArgumentError
from ._state import State


def make_state(
    cls: type[State], state_dict: Mapping[str, Any], masters: Mapping[str, Any], writeable: bool
) -> State:
    for argument, given in (("state_dict", state_dict), ("masters", masters)):
        if not hasattr(given, "items"):
            raise TypeError(f"{argument} is a {type(given).__name__}: pass tensors by name, a dict")
    unknown = [name for name in masters if name not in state_dict]
    if unknown:
        raise InvalidArgumentError(
            f"masters has {unknown[0]!r}, and the state_dict has not: use the state_dict's names"
        )
    state = cls(writeable=writeable)
    aliases: dict[str, str] = {}
    skipped: list[str] = []
    owners: dict[tuple[Any, ...], str] = {}
    for name, tensor in state_dict.items():
        if not _is_array(tensor):
            skipped.append(name)
            continue
        local = getattr(tensor, "_local_tensor", tensor)
        owner = owners.setdefault(place_of(local) or (name,), name)
        if owner != name:
            if name in masters:
                raise InvalidArgumentError(
                    f"masters has {name!r}, which is tied to {owner!r}: name the master {owner!r}"
                )
            aliases[name] = owner
        elif name in masters:
            _add_master(state, name, tensor, masters[name])
        elif hasattr(tensor, "_local_tensor"):
            _add_part(state, name, tensor)
        else:
            state.add(name, tensor)
    state.aliases, state.skipped = aliases, tuple(skipped)
    return state


def _is_array(value: Any) -> bool:
    return is_torch(value) or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")


def _add_master(state: State, name: str, tensor: Any, master: Any) -> None:
    if hasattr(tensor, "_local_tensor") or hasattr(master, "_local_tensor"):
        raise InvalidArgumentError(
            f"tensor '{name}' is a DTensor, and slices have no masters: publish the rounded parts"
        )
    if tuple(tensor.shape) != tuple(master.shape):
        raise InvalidArgumentError(
            f"master of tensor '{name}' has the shape {tuple(master.shape)}, the tensor "
            f"{tuple(tensor.shape)}"
        )
    state.add_master(name, master, _core.type_name(tensor, name))


def _add_part(state: State, name: str, tensor: Any) -> None:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, begin = compute_local_shape_and_global_offset(
        tensor.shape, tensor.device_mesh, tensor.placements
    )
    local = tensor._local_tensor
    if any(placement.is_partial() for placement in tensor.placements):
        raise InvalidArgumentError(
            f"tensor '{name}' is a sum that is not reduced yet (Partial): redistribute it first"
        )
    if tuple(local.shape) == tuple(tensor.shape):
        state.add(name, local)
    else:
        state.add_slice(name, local, tensor.shape, begin)
