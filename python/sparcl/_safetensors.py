"""Arrays by name as a .safetensors file, and back."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

from . import _core
from ._arrays import shape_of
from ._errors import InvalidArgumentError

_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip


def save(tensors: Mapping[str, Any], path: Union[str, os.PathLike[str]]) -> None:
    """Writes arrays to a file. Not in place: `path` is written anew."""
    header: dict[str, Any] = {}
    at = 0
    for name, array in tensors.items():
        kind = _core.type_name(array, f"tensor '{name}'")
        shape = shape_of(array)
        size = int(np.prod(shape, dtype=np.int64)) * _core.type_bytes(kind)
        header[name] = {
            "dtype": _CODES[kind], "shape": list(shape), "data_offsets": [at, at + size],
        }  # fmt: skip
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, array in tensors.items():
            with _core.Memory(array, f"tensor '{name}'", False) as memory:
                file.write(memory)


def load_into(path: Union[str, os.PathLike[str]], tensors: Mapping[str, Any]) -> None:
    """Reads a file into arrays of the same names, types and shapes; else it writes nothing."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        header.pop("__metadata__", None)
        if set(header) != set(tensors):
            raise InvalidArgumentError(f"{path} has other tensors than the arrays")
        with contextlib.ExitStack() as held:  # all are there before the first is written
            memories = {}
            for name, array in tensors.items():
                memory = held.enter_context(_core.Memory(array, f"tensor '{name}'", True))
                kind = _CODES[_core.type_name(array, f"tensor '{name}'")]
                own = (kind, list(shape_of(array)))
                said = (header[name]["dtype"], header[name]["shape"])
                if own != said:
                    raise InvalidArgumentError(
                        f"tensor '{name}' is {own[0]} {own[1]}, and {said[0]} {said[1]} in {path}"
                    )
                memories[name] = memory
            for name, memory in memories.items():
                file.seek(begin + header[name]["data_offsets"][0])
                file.readinto(memory)
