"""The trainer's side of all adapters: host copies of its tensors, and their publisher."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from .. import Publisher, State
from .._errors import InvalidArgumentError, InvalidUsageError


class Meta(NamedTuple):
    """Name, type ("bfloat16") and shape of a tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Staged:
    """Host copies of a trainer's tensors. The publisher starts with the first version.

    A trainer gives its tensors one by one, often on a GPU and gathered for this purpose. A
    publisher reads them at one time. Memory: the model's bytes here, and as many in the publisher.
    """

    def __init__(self, listen: Optional[str] = None, *, dtype: Any = None, **options: Any):
        """Prepares a publisher.

        Args:
            listen: as in :class:`sparcl.Publisher`, as are `options`.
            dtype: floating-point tensors are rounded to this torch type; None: as they are.
        """
        self._listen, self._dtype, self._options = listen, dtype, options
        self._tensors: dict[str, Any] = {}
        self._publisher: Optional[Publisher] = None

    def publish(self, weights: Iterable[tuple[str, Any]]) -> int:
        """Copies tensors, and publishes them. Returns the version.

        Each call must give the same names. After an error nothing is published.
        """
        if self._publisher is None:
            tensors = {name: self._copy(tensor) for name, tensor in weights}
            state = State(tensors, writeable=False)
            self._publisher = Publisher(state, self._listen, **self._options)
            self._tensors = tensors
        else:
            missing = dict.fromkeys(self._tensors)
            for name, tensor in weights:
                self._refill(name, tensor)
                missing.pop(name, None)
            if missing:
                raise InvalidArgumentError(
                    f"the trainer gave no tensor {next(iter(missing))!r}, which the version before "
                    "has: give all tensors, or start a new publisher"
                )
        return self._publisher.publish()

    def _copy(self, tensor: Any) -> Any:
        dtype = self._dtype if self._dtype and tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to("cpu", dtype, copy=True).contiguous()

    def _refill(self, name: str, tensor: Any) -> None:
        copy = self._tensors.get(name)
        if copy is None or copy.shape != tensor.shape:
            raise InvalidArgumentError(
                f"tensor {name!r} of shape {tuple(tensor.shape)} is not in the published model: "
                "give the same tensors each time, or start a new publisher"
            )
        copy.copy_(tensor.detach())

    def takes(self, tensors: Mapping[str, Any]) -> bool:
        """Whether `tensors` can be published: they have names, types and shapes as those before."""
        return self._publisher is None or (
            list(tensors) == list(self._tensors)
            and all(
                tensors[name].shape == copy.shape and tensors[name].dtype == copy.dtype
                for name, copy in self._tensors.items()
            )
        )

    @property
    def metas(self) -> list[Meta]:
        """The tensors of the published versions."""
        return [
            Meta(name, str(copy.dtype).split(".")[-1], tuple(copy.shape))
            for name, copy in self._tensors.items()
        ]

    @property
    def publisher(self) -> Optional[Publisher]:
        """None before the first version."""
        return self._publisher

    def update_info(self, version: int) -> dict[str, Any]:
        """What a :class:`Shadow` needs to know of the newest version: plain values, for JSON."""
        if self._publisher is None:
            raise InvalidUsageError("no version is published yet: call publish first")
        metas = self.metas
        elements = sum(math.prod(meta.shape) for meta in metas)
        return {
            "version": version,
            "fraction": self._publisher.last_report.nnz_in / max(elements, 1),
            "address": self._publisher.address,
            "names": [meta.name for meta in metas],
            "dtype_names": [meta.dtype for meta in metas],
            "shapes": [list(meta.shape) for meta in metas],
        }

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
