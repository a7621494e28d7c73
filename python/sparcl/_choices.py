"""Options by name: the words of the Python package, and the numbers of the C interface."""

from __future__ import annotations

import os
from typing import Optional, Union

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
    return None if path is None else os.fspath(path)
