"""Stores: versions of a model in a folder that all hosts share, or in a bucket of S3."""

from __future__ import annotations

from typing import Any, List, Optional, Union

from . import _core
from ._arrays import count_of, name_of_type, place_of, shape_of
from ._choices import (
    CHAIN, Chain, Path, fill, handle_of, number_of, real, text, text_path, whole,
)  # fmt: skip
from ._errors import CorruptError, InvalidUsageError
from ._state import State, Tensors, as_state, pairs_of


class Store:
    """Versions of a model in a folder or a bucket. One call of a store at a time runs.

    >>> store = sparcl.Store("file:/shared/policy")
    >>> store.publish({"w": weights}, 1)
    >>> store.restore({"w": weights})
    """

    def __init__(
        self, url: str, *, anchor_every: int = 0, keep_versions: int = 0, lease_seconds: float = 0,
        single_writer: bool = False, model_id: Optional[str] = None, key: Optional[Path] = None,
        trust: Optional[Path] = None, trust_threshold: int = 0, chain: Chain = "hybrid",
    ):  # fmt: skip
        """Opens a store. No request is made. The first publish makes a folder that does not exist.
        Until then :meth:`latest` says 0, and :meth:`list`, :meth:`verify`, :meth:`prune`,
        :meth:`compact` and :meth:`copy` raise :class:`SystemError`.

        Args:
            url: "file:PATH", or "s3://BUCKET/PREFIX" with keys, region and endpoint from AWS'
                variables and files.
            anchor_every: largest number of versions between two anchors (all bytes); 0: 64.
            keep_versions: prune after each of these; 0: keep all.
            lease_seconds: how long a reader's needs are respected; 0: 600.
            single_writer: publish also to a server of S3 that ignores conditions.
            model_id: written by a publisher; a reader refuses others.
            key: file of keys that sign what is published.
            trust: file of public keys, `trust_threshold` of which must have signed.
            chain: "hybrid", "plain" or "independent": what late readers may take.
        """
        options = fill(
            _core.StoreOptions(), anchor_every=anchor_every, keep_versions=keep_versions,
            lease_seconds=lease_seconds, single_writer=single_writer, model_id=model_id,
            key_path=text_path(key, "key"), trust_path=text_path(trust, "trust"),
            trust_threshold=trust_threshold, chain=number_of(CHAIN, chain, "chain"),
        )  # fmt: skip
        self._store = _core.store_open(text(url, "url"), options)
        self._states: dict[bool, tuple[Any, State]] = {}  # by whether it is written
        self._url = url

    def publish(self, state: Union[State, Tensors], version: Optional[int] = None) -> int:
        """Publishes the state's present bytes. Returns when all readers can restore the version.

        Args:
            state: a :class:`State`, or tensors by name; the same arrays each time.
            version: larger than the newest one; None: the next one.

        Returns:
            The version.
        """
        version = self.latest() + 1 if version is None else version
        version = whole(version, "version")
        self._store.publish(self._as_state(state, writeable=False)._state, version)
        return version

    def latest(self) -> int:
        """The newest version; 0: there is none."""
        return self._store.latest()

    def restore(self, state: Union[State, Tensors], version: int = 0) -> int:
        """Writes a version into the state's tensors, which may be some, or slices, of the model's.

        Args:
            state: a :class:`State`, or tensors by name. If they are the same arrays each time, only
                what is newer is read.
            version: 0: the newest.

        Returns:
            The version.
        """
        version = whole(version, "version")
        return self._store.restore(self._as_state(state, writeable=True)._state, version)

    # Of the same arrays as before the state is kept, which knows what they hold.
    def _as_state(self, tensors: Union[State, Tensors], writeable: bool) -> State:
        if isinstance(tensors, State):
            tensors.check_places()
            return as_state(tensors, writeable)
        pairs = pairs_of(tensors)
        places = [(name, _place(array)) for name, array in pairs]
        kept = self._states.get(writeable)
        if kept is not None and kept[0] != places and not writeable:
            raise InvalidUsageError(
                "this store publishes other arrays: pass the same ones each time, changed in place "
                "(weights[:] = ...)"
            )
        if kept is None or kept[0] != places:
            self._states[writeable] = kept = (places, State(pairs, writeable=writeable))
        return kept[1]

    def list(self) -> List[_core.StoreVersion]:
        """All versions that the store has, ascending."""
        return self._store.versions()

    def verify(self, copy: Optional[Store] = None) -> List[tuple[str, str]]:
        """Reads all objects, and checks that they are what was published.

        Args:
            copy: a copy of the store, whose objects take the place of damaged ones.

        Returns:
            Place and fault of what was repaired.

        Raises:
            CorruptError: something is damaged or missing, and was not repaired.
        """
        whole_copy = None if copy is None else handle_of(copy, "copy", "Store")
        damages: Any = self._store.verify(whole_copy)
        left = [f"{place}: {what}" for place, what, repaired in damages if not repaired]
        if left:
            raise CorruptError("; ".join(left))
        return [(place, what) for place, what, _ in damages]

    def prune(self, *, versions: int = 0, seconds: float = 0, bytes: int = 0) -> _core.StorePruned:
        """Removes old versions that no reader needs. A later call removes what this one marks.

        Args:
            versions: number of newest versions to keep.
            seconds: keep versions that are younger.
            bytes: remove more versions, until all objects have at most this many bytes.
        """
        return self._store.prune(
            whole(versions, "versions"), real(seconds, "seconds"), whole(bytes, "bytes")
        )

    def compact(self) -> int:
        """Adds the skips that are missing, and an anchor. Returns the number of objects."""
        return self._store.compact()

    def copy(self, to: Store) -> int:
        """Copies all versions that another store lacks. Returns their number."""
        return self._store.copy(handle_of(to, "to", "Store"))

    def close(self) -> None:
        """Closes the store, and gives its states back."""
        self._store.close()
        self._states = {}

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sparcl.Store {self._url}>"


# What tells an array from others; empty ones have no place, and are as good as each other.
def _place(array: Any) -> Any:
    place = place_of(array)
    if place is None and count_of(array, "tensor") == 0:
        return ("empty", name_of_type(getattr(array, "dtype", "")), tuple(shape_of(array)))
    return place or id(array)
