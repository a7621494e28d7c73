"""Options of calls, as the C interface has them."""

from __future__ import annotations

from typing import Any, Optional

from . import _core
from ._arrays import name_of_type
from ._choices import (
    DETERMINISM, MODE, RESIDUAL, ROUNDING, SELECT, VALUES, VERIFY, WIRE, Rounding, Select, Values,
    Verify, number_of, real, toggle, whole, wholes, word,
)  # fmt: skip
from ._errors import InvalidArgumentError

_TOP_K_DEFAULTS = ("union", "same", "default", "sent", None, None, (), None)
_DEFAULT_TOP_K = _core.TopKOptions(None, 0, 0, 0, 0, 0, 0, [])


def top_k_options(*given: Any) -> _core.TopKOptions:
    if all(one is other for one, other in zip(given, _TOP_K_DEFAULTS)):
        return _DEFAULT_TOP_K
    mode, wire, determinism, residual, reuse_threshold, device_kernels, tensors, algorithm = given
    return _core.TopKOptions(
        word(algorithm, "algorithm"), number_of(MODE, mode, "mode"), number_of(WIRE, wire, "wire"),
        number_of(DETERMINISM, determinism, "determinism"),
        number_of(RESIDUAL, residual, "residual"), toggle(reuse_threshold, "reuse_threshold"),
        toggle(device_kernels, "device_kernels"),
        wholes(tensors, "tensors"),
    )  # fmt: skip


def update_options(
    select: Select = "all", threshold: float = 0, count: int = 0, bytes: int = 0,
    grid: Any = "bfloat16", values: Values = "exact", rounding: Rounding = "nearest", seed: int = 0,
    adopt: Optional[bool] = None, verify: Verify = "default",
) -> _core.UpdateOptions:  # fmt: skip
    """The C structure of the options of an update."""
    number_of(SELECT, select, "select")
    for argument, value, used in (
        ("threshold", threshold, "threshold"), ("count", count, "top_k"), ("bytes", bytes, "bytes"),
    ):  # fmt: skip
        if select != used and value != 0:
            raise InvalidArgumentError(
                f"{argument} is for select={used!r}: leave it out, or select so"
            )
        if select == used and value == 0:
            raise InvalidArgumentError(f"select is {select!r}, and {argument} is 0: give it")
    return _core.UpdateOptions(
        number_of(SELECT, select, "select"), real(threshold, "threshold"), whole(count, "count"),
        whole(bytes, "bytes"), name_of_type(grid), number_of(VALUES, values, "values"),
        number_of(ROUNDING, rounding, "rounding"), whole(seed, "seed"), toggle(adopt, "adopt"),
        number_of(VERIFY, verify, "verify"),
    )  # fmt: skip
