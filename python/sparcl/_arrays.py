"""Outputs in the kind of their inputs, and streams."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Optional

import numpy as np

from . import _core
from ._errors import InvalidArgumentError


def is_torch(array: Any) -> bool:
    return hasattr(array, "data_ptr") and hasattr(array, "element_size")


def numpy_type(name: str) -> np.dtype:
    """NumPy's type of a name; bfloat16 and float8 are those of ml_dtypes."""
    if name.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgumentError(
                f"NumPy has no {name}: install ml_dtypes, or pass out="
            ) from None
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def shape_of(array: Any) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    return tuple(memoryview(array).shape or ()) if shape is None else tuple(shape)


def like(array: Any) -> Any:
    """A new contiguous array of the shape, type and place of `array`."""
    if isinstance(array, np.ndarray):
        return np.empty(array.shape, array.dtype)
    if is_torch(array):
        import torch

        return torch.empty(array.shape, dtype=array.dtype, device=array.device)
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy.empty(array.shape, array.dtype)
    name = _core.type_name(array, "x")  # raises for what is no array
    return np.empty(shape_of(array), numpy_type(name))


def vector_like(array: Any, count: int, argument: str) -> Any:
    """A new array of `count` elements of the type and place of `array`."""
    if is_torch(array):
        import torch

        return torch.empty(count, dtype=array.dtype, device=array.device)
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy.empty(count, array.dtype)
    return np.empty(count, numpy_type(_core.type_name(array, argument)))


def count_of(array: Any, argument: str) -> int:
    _core.type_name(array, argument)  # raises for what is no array
    return math.prod(shape_of(array))


def stream_of(stream: Any) -> int:
    """The address of a CUDA stream: of torch, CuPy, or a number. None: the default stream."""
    if stream is None:
        return 0
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if isinstance(stream, int) and 0 <= stream < 2**64:
        return stream
    raise InvalidArgumentError(
        f"stream is {stream!r}: pass a CUDA stream of torch or CuPy, or its address"
    )


def writeable(memory: Any, dtype: str, shape: Optional[tuple[int, ...]] = None) -> np.ndarray:
    """An array over a buffer."""
    array = np.frombuffer(memory, dtype=numpy_type(dtype))
    return array if shape is None else array.reshape(shape)


def name_of_type(dtype: Any) -> str:
    """"float32" and so on, of a name, or a type of NumPy, ml_dtypes or torch."""
    if isinstance(dtype, str):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        return text[6:]
    try:
        return np.dtype(dtype).name
    except TypeError:
        return text


def view_of_address(address: int, like_array: Any, owner: Any) -> tuple[np.ndarray, Any]:
    """A read-only NumPy array over memory of `owner`, and what lives as long as the array does."""
    name = _core.type_name(like_array, "tensor")
    shape = shape_of(like_array)
    dtype = numpy_type(name)
    size = math.prod(shape) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address) if size else bytearray()
    memory_owner = _Owned(memory, owner)
    array = np.asarray(memory_owner).view(dtype).reshape(shape)
    array.flags.writeable = False
    return array, memory_owner


class _Owned:
    """Memory with the object that owns it, for NumPy."""

    def __init__(self, memory: Any, owner: Any):
        self._memory, self._owner = memory, owner

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return dict(np.frombuffer(self._memory, np.uint8).__array_interface__)


def begin_of(array: Any) -> Any:
    """Address and number of elements, cheaply; None: not known."""
    if is_torch(array):
        return None if array.is_meta else (array.data_ptr(), array.numel())
    facts = getattr(array, "__array_interface__", None)
    return None if facts is None else (facts["data"][0], facts["shape"])


def place_of(array: Any) -> Any:
    """Equal for arrays over the same memory in the same shape; None: nothing is there, or known.

    Views of other shapes are not equal; the library refuses memory that is added twice.
    """
    if is_torch(array):
        if array.is_meta or array.numel() == 0:
            return None
        strides = tuple(array.stride())
        return (str(array.device), array.data_ptr(), tuple(array.shape), strides, str(array.dtype))
    facts = getattr(array, "__array_interface__", None)
    if facts is None or 0 in facts["shape"]:
        return None
    return ("numpy", facts["data"][0], facts["shape"], facts.get("strides"), str(array.dtype))
