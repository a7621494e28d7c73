"""Models as named tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, Union

from . import _core
from ._arrays import begin_of, count_of, name_of_type, place_of
from ._choices import flag, shown, text, whole, wholes
from ._errors import InvalidArgumentError, InvalidUsageError

#: Name and array of each tensor.
Tensors = Union[Mapping[str, Any], Iterable[tuple[str, Any]]]


def pairs_of(tensors: Tensors) -> list[tuple[str, Any]]:
    """Names and arrays of a model."""
    given: Any = tensors
    try:
        pairs = given.items() if hasattr(given, "items") else given
        return [(name, array) for name, array in pairs]
    except (TypeError, ValueError):
        pass
    if hasattr(given, "state_dict"):
        cure = "pass its state_dict() (from_state_dict, into)"
    else:
        cure = "pass a dict of arrays by name"
    raise TypeError(f"a {type(tensors).__name__} is no model: {cure}")


class State(Mapping):
    """A model: named tensors, which stay where they are.

    Publishers and broadcasts read the tensors, subscribers and stores write them. The state keeps
    the arrays alive. They must be contiguous, and must not be moved or resized meanwhile (torch:
    ``resize_``, ``set_``, ``tensor.data = ...``). ``state[name]`` is the array that was added.
    """

    def __init__(self, tensors: Tensors = (), *, writeable: bool = True):
        """Makes a state of tensors.

        Args:
            tensors: arrays by name, in the order in which they are sent.
            writeable: False for a publisher or a root of broadcasts: read-only arrays can be added.
        """
        self._state = _core.state_create()
        self._writeable = flag(writeable, "writeable")
        self._arrays: dict[str, Any] = {}
        self._begins: list[tuple[str, Any, Any]] = []  # name, array, and where it was
        self._numbers: dict[str, Optional[int]] = {}  # in the C state; None: several slices
        self._count = 0
        self._given = tensors if isinstance(tensors, Mapping) else None
        for name, array in pairs_of(tensors):
            self.add(name, array)

    @classmethod
    def from_state_dict(
        cls, state_dict: Mapping[str, Any], *, masters: Optional[Mapping[str, Any]] = None,
        writeable: bool = True,
    ) -> State:  # fmt: skip
        """Makes a state of a model's `state_dict`, of torch or of any framework.

        Tensors that share memory (tied weights) are added once, under the first name; the others
        are in :attr:`aliases`. Parts of DTensors (FSDP2, tensor parallel) are added as slices.
        Non-tensors are left out, and named in :attr:`skipped`.

        Args:
            state_dict: tensors by name; `model.state_dict()`.
            masters: float32 tensors by name, from which those of the state_dict are rounded at each
                publish: what the optimiser steps.
            writeable: as in :class:`State`.
        """
        from . import _state_dict

        return _state_dict.make_state(cls, state_dict, masters or {}, writeable)

    #: Names of tensors that share the memory of another one, with its name.
    aliases: Mapping[str, str] = {}
    #: Names in a state_dict that are no tensors.
    skipped: tuple[str, ...] = ()

    def add(self, name: str, array: Any) -> None:
        """Appends a tensor: contiguous, row-major; it stays where it is."""
        self._check_name(name)
        self._state.add(name, array, self._writeable)
        self._note(name, array)

    def add_slice(
        self, name: str, array: Any, shape: Iterable[int], begin: Iterable[int]
    ) -> None:
        """Appends a slice of a tensor: a rank's part of a sharded model.

        Args:
            name: of the tensor.
            array: the slice alone; its shape is the slice's extent.
            shape: of the whole tensor.
            begin: first index of the slice in each dimension.
        """
        self._check_name(name)
        whole_shape, first = wholes(shape, "shape"), wholes(begin, "begin")
        self._state.add_slice(name, array, whole_shape, first, self._writeable)
        self._note(name, array)

    def add_master(self, name: str, master: Any, dtype: Any) -> None:
        """Appends a tensor that is rounded from a float32 array at each publish.

        Args:
            name: of the tensor, as replicas have it.
            master: float32; what the optimiser steps.
            dtype: type of the tensor: a float type of 16 or 8 bits.
        """
        self._check_name(name)
        self._state.add_master(name, master, name_of_type(dtype))
        self._note(name, master)

    def _note(self, name: str, array: Any) -> None:
        self._numbers[name] = None if name in self._arrays else self._count
        self._arrays.setdefault(name, array)
        self._begins.append((name, array, begin_of(array)))
        self._count += 1

    @staticmethod
    def _check_name(name: object) -> None:
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"{shown(name)} is no name of a tensor: pass a dict of arrays, or pairs of name "
                "and array"
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"{name!r}: names of tensors are UTF-8") from None

    def check_places(self) -> None:
        """Refuses arrays whose memory is elsewhere, and a dict with other arrays than it had."""
        for name, array, begin in self._begins:
            if begin_of(array) != begin:
                raise InvalidUsageError(
                    f"the memory of {name!r} is not where it was: an array of a state must not be "
                    "resized or moved (resize_, set_, .data = ..., model.to()); make the state anew"
                )
        if self._given is None:
            return
        for name, array in self._arrays.items():
            now = self._given.get(name)
            if now is not array and (now is None or place_of(now) != place_of(array)):
                raise InvalidUsageError(
                    f"{name!r} is another array than the state was made with, or is gone: change "
                    "arrays in place, as by weights[:] = ..., or make the state anew"
                )
        if len(self._given) > len(self._arrays):
            new = next(name for name in self._given if name not in self._arrays)
            raise InvalidUsageError(f"{new!r} has come to the dict since: make the state anew")

    def mark_indices(self, name: str, indices: Any) -> None:
        """Marks the elements that changed since the last update.

        The next update reads and sends marked elements only: a change without a mark is not sent.

        Args:
            name: of the tensor.
            indices: element numbers, strictly ascending, int64 or uint64; copied.
        """
        self._state.mark_indices(text(name, "name"), indices)

    def mark_blocks(self, name: str, bitmap: Any, block: int) -> None:
        """Marks blocks that may have changed, as :meth:`mark_indices` marks elements.

        Args:
            name: of the tensor.
            block: elements a block.
            bitmap: uint64 words, a bit a block, from the low end; copied.
        """
        block = whole(block, "block", 1)
        array = self._arrays.get(text(name, "name"))
        if array is not None:
            words, wanted = count_of(bitmap, "bitmap"), -(-count_of(array, "tensor") // block)
            if 64 * words < wanted:
                raise InvalidArgumentError(
                    f"bitmap has {words} words, and {name!r} has {wanted} blocks of {block} "
                    f"elements: pass {-(-wanted // 64)} words"
                )
        self._state.mark_blocks(name, bitmap, block)

    def set_trainable(self, name: str, trainable: bool) -> None:
        """Sets whether a tensor trains. Updates neither read nor send a tensor that does not."""
        self._state.set_trainable(text(name, "name"), flag(trainable, "trainable"))

    def set_priority(self, name: str, priority: int) -> None:
        """Sets the order of tensors in updates: higher priority first; the same on all ranks."""
        number = whole(priority, "priority", -(2**31), 2**31 - 1)
        self._state.set_priority(text(name, "name"), number)

    @property
    def version(self) -> int:
        """The version of the last broadcast that succeeded; 0 before the first."""
        return self._state.version()

    def hash(self) -> str:
        """A hash of names, types, shapes, order and bytes: 32 hexadecimal digits.

        It finds accidents, and does not resist an attacker.
        """
        return self._state.hash().hex()

    def close(self) -> None:
        """Gives the arrays back. A publisher, subscriber or store of the state must be closed."""
        self._state.close()
        self._arrays = {}

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __reduce__(self) -> Any:
        raise TypeError("a sparcl.State cannot be copied: make another one of the arrays")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<sparcl.State of {len(self)} tensors>"


def as_state(tensors: Union[State, Tensors], writeable: bool) -> State:
    """A state as it is; a state of anything else. Refuses to write what is for reading."""
    if not isinstance(tensors, State):
        return State(tensors, writeable=writeable)
    if writeable and not tensors._writeable:
        raise InvalidArgumentError(
            "the state was made with writeable=False, and the call writes its tensors: make "
            "another state of them"
        )
    return tensors
