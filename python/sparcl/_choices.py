"""Options by name: the words of the Python package, and the numbers of the C interface."""

from __future__ import annotations

import operator
import os
from typing import Any, Optional, Union

from ._errors import InvalidArgumentError

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


def number_of(choices: dict[str, int], value: object, argument: str) -> int:
    """Returns the number of a choice; names the choices if `value` is none of them."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    words = ", ".join(repr(each) for each in choices)
    raise InvalidArgumentError(f"{argument} is {value!r}: it is one of {words}")


def toggle(value: Optional[bool], argument: str) -> int:
    """None is the library's default."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1 if value else 2
    raise InvalidArgumentError(f"{argument} is {value!r}: it is True, False or None")


def text_path(path: Optional[Union[str, os.PathLike[str]]]) -> Optional[str]:
    """A path as text; None stays None."""
    return None if path is None else os.fsdecode(path)


def whole(value: Any, argument: str, least: int = 0, most: int = 2**64 - 1) -> int:
    """A whole number within bounds; names the argument if it is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument} is {value!r}: it is a whole number") from None
    if not least <= number <= most:
        raise InvalidArgumentError(f"{argument} is {number}: it is {least} to {most}")
    return number


def real(value: Any, argument: str) -> float:
    """A number; names the argument if it is none."""
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{argument} is {value!r}: it is a number")


def text(value: Any, argument: str) -> str:
    """Text; names the argument if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} is {value!r}: it is text")
    return value


def fill(options: Any, **given: object) -> Any:
    """Sets the attributes of a structure of options; names the one whose value has a wrong type."""
    for name, value in given.items():
        try:
            setattr(options, name, value)
        except TypeError:
            kind = {int: "a whole number of 0 or more, below 2**64", float: "a number", bool: "True or False"}
            expected = kind.get(type(getattr(options, name)), "text, or None")
            raise InvalidArgumentError(f"{name} is {value!r}: it is {expected}") from None
    return options
