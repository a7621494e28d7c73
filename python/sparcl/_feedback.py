"""Masks, and error feedback."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._arrays import name_of_type, writeable
from ._choices import Path, path_of, real, whole


class Mask:
    """A set of elements of an array that every rank knows, for :meth:`Comm.all_reduce_masked`.

    Each rank makes the same mask in the same way.
    """

    def __init__(self, indices: Any, count: int):
        """Makes a mask of given elements.

        Args:
            indices: element numbers below `count`, strictly ascending, int64 or uint64; copied.
            count: elements of the array.
        """
        self._mask = _core.mask_of_indices(indices, whole(count, "count"))

    @classmethod
    def random(cls, count: int, density: float, seed: int = 0, *, block: int = 0) -> Mask:
        """Makes a mask of round(density * count) random elements, or blocks of `block` elements.

        It depends on these arguments and the step only, on every machine.
        """
        mask = cls.__new__(cls)
        mask._mask = _core.mask_random(
            whole(count, "count"), real(density, "density"), whole(seed, "seed"),
            whole(block, "block"),
        )  # fmt: skip
        return mask

    def set_step(self, step: int) -> None:
        """Draws a random mask again, for another step; 0 at first."""
        self._mask.set_step(whole(step, "step"))

    def indices(self) -> np.ndarray:
        """The elements of the mask, ascending: uint64."""
        found = np.empty(self._mask.count(), np.uint64)
        self._mask.indices(found)
        return found

    def __len__(self) -> int:
        return self._mask.count()


class Feedback:
    """Error feedback: what one rank has not yet sent of its gradients, the residual.

    A top-k or masked call adds the residual to its input and keeps the rest (Seide et al. 2014;
    Stich et al. 2018). A rank has one feedback an array.
    """

    def __init__(self, count: int, dtype: Any = "float32"):
        """Makes a feedback with a residual of zeros.

        Args:
            count: elements of the array.
            dtype: type of the array. The residual of floats of up to 16 bits is float32.
        """
        self._feedback = _core.feedback_create(whole(count, "count"), name_of_type(dtype))

    @classmethod
    def load(cls, path: Path) -> Feedback:
        """Makes a feedback from a file of :meth:`save`, bit for bit."""
        feedback = cls.__new__(cls)
        feedback._feedback = _core.feedback_load(path_of(path, "path"))
        return feedback

    def save(self, path: Path) -> None:
        """Saves the residual to a safetensors file, which appears when it is complete."""
        self._feedback.save(path_of(path, "path"))

    def __reduce__(self) -> Any:
        raise TypeError("a sparcl.Feedback cannot be copied: save() it, and load() it")

    def reset(self) -> None:
        """Sets the residual to zeros and resets the statistics."""
        self._feedback.reset()

    @property
    def residual(self) -> np.ndarray:
        """A copy of the residual."""
        return writeable(*self._feedback.residual())

    @property
    def stats(self) -> _core.FeedbackStats:
        """Statistics of the last call; reads the residual once."""
        return self._feedback.stats()
