"""Options by name: the words of the Python package, and the numbers of the C interface."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from typing import Any, Literal, Optional, Union

import numpy as np

from ._errors import InvalidArgumentError

#: A path of the file system.
Path = Union[str, os.PathLike[str]]

OP = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
MODE = {"union": 0, "selected": 1, "global": 2}
WIRE = {"same": 0, "bfloat16": 1, "int8": 2, "int4": 3, "int2": 4}
DETERMINISM = {"default": 0, "runs": 1, "canonical": 2, "fast": 3}
VERIFY = {"default": 0, "off": 1, "touched": 2, "full": 3}
COMMIT = {"default": 0, "staged": 1, "early": 2}
OUTSIDE = {"keep": 0, "zero": 1}
RESIDUAL = {"sent": 0, "mean": 1}
MEAN = {"weight": 0, "workers": 1, "contributors": 2, "none": 3}
OUTER = {"none": 0, "sgd": 1, "nesterov": 2, "delayed_nesterov": 3, "adam": 4}
ROUND = {"synchronous": 0, "quorum": 1, "asynchronous": 2}
NON_FINITE = {"fail": 0, "refuse": 1, "zero": 2}
SELECT = {"all": 0, "threshold": 1, "top_k": 2, "grid": 3, "bytes": 4}
VALUES = {"exact": 0, "int8": 1, "float8": 2}
ROUNDING = {"nearest": 0, "stochastic": 1}
CHAIN = {"hybrid": 0, "plain": 1, "independent": 2}
HASH = {"state": 0, "xxh3": 1, "sha256": 2, "identity": 3}

# Their types.
Op = Literal["sum", "prod", "max", "min", "avg"]
Mode = Literal["union", "selected", "global"]
Wire = Literal["same", "bfloat16", "int8", "int4", "int2"]
Determinism = Literal["default", "runs", "canonical", "fast"]
Verify = Literal["default", "off", "touched", "full"]
Commit = Literal["default", "staged", "early"]
Outside = Literal["keep", "zero"]
Residual = Literal["sent", "mean"]
Mean = Literal["weight", "workers", "contributors", "none"]
Outer = Literal["none", "sgd", "nesterov", "delayed_nesterov", "adam"]
Round = Literal["synchronous", "quorum", "asynchronous"]
NonFinite = Literal["fail", "refuse", "zero"]
Select = Literal["all", "threshold", "top_k", "grid", "bytes"]
Values = Literal["exact", "int8", "float8"]
Rounding = Literal["nearest", "stochastic"]
Chain = Literal["hybrid", "plain", "independent"]
Hash = Literal["state", "xxh3", "sha256", "identity"]


def shown(value: Any) -> str:
    """A value for the text of an error: short, also for a model."""
    if isinstance(value, (list, tuple, dict, set)):
        parts = value.values() if isinstance(value, dict) else value
        if len(value) > 8 or any(hasattr(each, "shape") for each in parts):
            return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def number_of(choices: dict[str, int], value: object, argument: str) -> int:
    """Returns the number of a choice; names the choices if `value` is none of them."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    words = ", ".join(repr(each) for each in choices)
    raise InvalidArgumentError(f"{argument} is {shown(value)}: it is one of {words}")


def toggle(value: Optional[bool], argument: str) -> int:
    """None is the library's default."""
    if value is None:
        return 0
    if isinstance(value, (bool, np.bool_)):
        return 1 if value else 2
    raise InvalidArgumentError(f"{argument} is {shown(value)}: it is True, False or None")


def flag(value: Any, argument: str) -> bool:
    """True or False; names the argument if it is neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{argument} is {shown(value)}: it is True or False")
    return bool(value)


def path_of(path: Any, argument: str) -> str:
    """A path as text; names the argument if it is none."""
    try:
        name = os.fsdecode(path)
        name.encode()
        return name
    except TypeError:
        raise TypeError(f"{argument} is {shown(path)}: it is a path") from None
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{argument} is {shown(path)}: names of files must be UTF-8 here, so rename it"
        ) from None


def text_path(path: Any, argument: str) -> Optional[str]:
    """A path as text; None stays None."""
    return None if path is None else path_of(path, argument)


def whole(value: Any, argument: str, least: int = 0, most: int = 2**64 - 1) -> int:
    """A whole number within bounds; names the argument if it is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument} is {shown(value)}: it is a whole number") from None
    if not least <= number <= most:
        raise InvalidArgumentError(f"{argument} is {number}: it is {least} to {most}")
    return number


def real(value: Any, argument: str) -> float:
    """A number; names the argument if it is none."""
    number: Optional[float] = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = float(value)
    if number is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{argument} is {shown(value)}: it is a number")
    if math.isnan(number):
        raise InvalidArgumentError(f"{argument} is nan: it is a number")
    return number


def wholes(values: Any, argument: str, most: int = 2**64 - 1) -> list[int]:
    """Whole numbers of 0 or more; names the argument if one is none."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{argument} is {shown(values)}: it is a sequence of whole numbers")
    return [whole(each, f"a number in {argument}", most=most) for each in values]


def texts(values: Any, argument: str, kind: str) -> list[str]:
    """Several texts or paths; names the argument if it is not several."""
    if isinstance(values, (str, bytes, os.PathLike)) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"{argument} is {shown(values)}: pass a sequence of {kind}s, such as a list"
        )
    return [path_of(each, f"a {kind} in {argument}") for each in values]


def called(value: Any, argument: str) -> Any:
    """A function, or None; names the argument if it is neither."""
    if value is not None and not callable(value):
        raise TypeError(f"{argument} is {shown(value)}: it is a function, or None")
    return value


def text(value: Any, argument: str) -> str:
    """Text; names the argument if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} is {shown(value)}: it is text")
    return value


def word(value: Any, argument: str) -> Optional[str]:
    """Text; None stays None."""
    return None if value is None else text(value, argument)


def handle_of(wrapped: Any, argument: str, kind: str) -> Any:
    """The C object inside an object of the package; names the argument if it has none."""
    handle = getattr(wrapped, "_" + kind.lower(), None)
    if handle is None:
        raise TypeError(f"{argument} is {shown(wrapped)}: pass a sparcl.{kind}")
    return handle


_EXPECTED = {
    int: "a whole number of 0 or more, below 2**64", float: "a number", bool: "True or False",
}  # fmt: skip


def fill(options: Any, **given: object) -> Any:
    """Sets the attributes of a structure of options; names the one whose value has a wrong type."""
    for name, value in given.items():
        try:
            setattr(options, name, value)
        except TypeError:
            expected = _EXPECTED.get(type(getattr(options, name)), "text, or None")
            raise InvalidArgumentError(f"{name} is {shown(value)}: it is {expected}") from None
    return options
