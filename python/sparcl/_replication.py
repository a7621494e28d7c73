"""Publishers and subscribers: new versions of a model reach every worker."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import math
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import _core
from ._choices import Path, fill, handle_of, real, text, text_path, toggle, whole
from ._errors import (
    Error, InvalidArgumentError, InvalidUsageError, RemoteError, StaleError, SystemError,
    TimeoutError,
)  # fmt: skip
from ._state import State, Tensors, as_state

if TYPE_CHECKING:
    from ._checkpoint import CheckpointSubscriber
    from ._comm import Comm
    from ._store import Store

# Those that are not closed yet: their threads end before the interpreter does.
_open: weakref.WeakSet[Any] = weakref.WeakSet()
_PIECE = 0.2  # seconds that a thread of an awaited call waits


def _close_all() -> None:
    try:
        for each in list(_open):
            try:
                each.close()
            except Error:
                pass  # a thread is in a call
    finally:
        _core.end_threads()


atexit.register(_close_all)


class _Left:
    """In place of a handle that arrays still use."""

    closed = True

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise InvalidUsageError("this object is closed, or was not made: make another one")


_Self = TypeVar("_Self", bound="_Ended")


class _Ended:
    """Shared by both: `with`, and the end."""

    _handle: Any = _Left()  # until it is made
    _views: Any = ()  # arrays over memory of the handle that are alive

    def close(self) -> None:
        """Ends it. Waits up to 2 s for a call of another thread."""
        if len(self._views) > 0:
            self._handle = _Left()  # ends with the last of them
        self._handle.close()
        _open.discard(self)

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or sent to another process: make another "
            "one there, with the address"
        )

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Publisher(_Ended):
    """Serves versions of a state to any number of subscribers, over TCP.

    >>> publisher = sparcl.Publisher({"w": weights})
    >>> publisher.publish(1)
    """

    def __init__(
        self, state: Union[State, Tensors], listen: Optional[str] = None, *, model_id: str = "",
        key: Optional[Path] = None, epoch_file: Optional[Path] = None, queue: int = 0,
        peer_bytes: int = 0, secret: Optional[Path] = None, insecure: Optional[bool] = None,
        shared_memory: Optional[bool] = None, witness: Optional[Path] = None,
        certificates: Optional[Path] = None, store: Optional[Store] = None,
    ):  # fmt: skip
        """Starts a publisher.

        Args:
            state: a :class:`State`, or tensors by name. The publisher keeps a copy.
            listen: "HOST:PORT"; None: a free port of the loopback interface. Other interfaces need
                `secret`, `certificates` or `insecure`.
            model_id: subscribers must pass the same.
            key: file of keys that sign versions.
            epoch_file: keeps the publisher's epoch over restarts.
            queue: versions that are kept for late subscribers; 0: 64.
            peer_bytes: memory that connections may take; 0: twice the model's bytes.
            secret: file of role publish: connections are encrypted, and peers need a secret.
            insecure: True: any peer that reaches the port can read the weights.
            shared_memory: to replicas of this machine.
            witness: file that all publishers of the model share: one at a time publishes.
            certificates: folder of certificates, in place of `secret`.
            store: a thread also writes the versions there; they go on from its newest one.
        """
        options = fill(
            _core.PublisherOptions(), listen=listen, model_id=model_id,
            key_path=text_path(key, "key"), state_path=text_path(epoch_file, "epoch_file"),
            queue=queue, peer_bytes=peer_bytes, secret_path=text_path(secret, "secret"),
            insecure=toggle(insecure, "insecure"),
            shared_memory=toggle(shared_memory, "shared_memory"),
            witness_path=text_path(witness, "witness"),
            certificates_path=text_path(certificates, "certificates"),
        )  # fmt: skip
        self.state = as_state(state, writeable=False)
        self._handle = _core.publisher_create(self.state._state, options, _store_of(store))
        self._newest = store.latest() if store is not None else 0
        self._publishing = threading.Lock()
        _open.add(self)

    @classmethod
    def from_state_dict(
        cls, state_dict: Mapping[str, Any], listen: Optional[str] = None, *,
        masters: Optional[Mapping[str, Any]] = None, **options: Any,
    ) -> Publisher:  # fmt: skip
        """Starts a publisher of ``model.state_dict()``; see :meth:`State.from_state_dict`.

        Args:
            masters: float32 tensors by name, from which the state_dict's are rounded.
            options: those of :class:`Publisher`.
        """
        state = State.from_state_dict(state_dict, masters=masters, writeable=False)
        return cls(state, listen, **options)

    @property
    def address(self) -> str:
        """The address for subscribers: "HOST:PORT"."""
        return self._handle.address()

    def publish(self, version: Optional[int] = None) -> int:
        """Publishes the tensors as they are now. Does not wait for subscribers.

        The arrays are those that the publisher was made with: change them in place
        (``weights[:] = ...``). A new array under an old name in the dict is refused.

        Args:
            version: larger than all versions before; None: the next one.

        Returns:
            The version.
        """
        with self._publishing:
            version = whole(self._newest + 1 if version is None else version, "version")
            self.state.check_places()
            self._handle.publish(version)
            self._newest = version
        return version

    async def publish_async(self, version: Optional[int] = None) -> int:
        """:meth:`publish` in a thread. The tensors must not change until it is done."""
        return await asyncio.to_thread(self.publish, version)

    def wait(self, version: int, acks: int = 1, timeout: Optional[float] = None) -> None:
        """Waits until `acks` replicas hold a version, or a later one.

        Args:
            timeout: seconds until :class:`TimeoutError`; None: no limit.
        """
        version, acks = whole(version, "version"), whole(acks, "acks", most=2**31 - 1)
        _with_limit(self._handle.wait, timeout, version, acks)

    async def wait_async(
        self, version: int, acks: int = 1, timeout: Optional[float] = None
    ) -> None:
        """:meth:`wait` as a coroutine."""
        await _in_pieces(timeout, lambda piece: self.wait(version, acks, piece), (TimeoutError,))

    def wait_stored(self, version: int, timeout: Optional[float] = None) -> None:
        """Waits until the store has a version, or a later one."""
        _with_limit(self._handle.wait_stored, timeout, whole(version, "version"))

    def count(self, version: int = 0) -> tuple[int, int]:
        """Connected replicas, and those of them that hold `version` or a later one."""
        return self._handle.count(whole(version, "version"))

    @property
    def last_report(self) -> _core.Report:
        """Figures of the last publish: nnz_in, bytes_sent to a replica, bytes_dense, seconds."""
        return self._handle.last_report()

    def __repr__(self) -> str:
        try:
            place = "closed" if self.closed else f"at {self.address}, version {self._newest}"
        except Error:
            place = "of another process"
        return f"<sparcl.Publisher {place}>"


class Subscriber(_Ended):
    """Holds the newest version of a publisher's model in tensors of this process.

    >>> subscriber = sparcl.Subscriber({"w": weights}, "trainer:4711", secret="reader.secret")
    >>> for version in subscriber:
    ...     evaluate(weights)

    Only :meth:`next`, :meth:`commit`, :meth:`next_group` and iteration write the tensors: whole
    versions, checked bit for bit.
    """

    def __init__(
        self, state: Union[State, Tensors], address: str, *, model_id: str = "",
        trust: Optional[Path] = None, trust_threshold: int = 0, record: Optional[Path] = None,
        double_buffer: Optional[bool] = None, relay: Optional[bool] = None,
        secret: Optional[Path] = None, max_age: float = 0, certificates: Optional[Path] = None,
        store: Optional[Store] = None, from_store: Optional[bool] = None,
        store_patience: float = 0,
    ):  # fmt: skip
        """Starts a subscriber, which connects, and connects again after each failure.

        Args:
            state: a :class:`State`, or tensors by name: the publisher's, or some of them, with its
                names, types and shapes, and any content.
            address: "HOST:PORT" of the publisher.
            model_id: of the publisher.
            trust: file of public keys, `trust_threshold` of which must have signed a version.
            record: keeps the last version, so that the next subscriber refuses older ones.
            double_buffer: keep a second set of the tensors; see :meth:`tensor`.
            relay: pass updates on to other replicas.
            secret: file of role replicate.
            max_age: seconds after which a version counts as stale.
            certificates: folder of certificates, in place of `secret`.
            store: versions come from there while the publisher is away.
            from_store: versions always come from the store, and the publisher tells of them.
            store_patience: seconds after which the publisher sends what the store lacks; 0: 5.
        """
        options = fill(
            _core.SubscriberOptions(), model_id=model_id, trust_path=text_path(trust, "trust"),
            trust_threshold=trust_threshold, record_path=text_path(record, "record"),
            double_buffer=toggle(double_buffer, "double_buffer"), relay=toggle(relay, "relay"),
            secret_path=text_path(secret, "secret"), max_age=max_age,
            certificates_path=text_path(certificates, "certificates"),
            from_store=toggle(from_store, "from_store"),
            store_patience_ms=round(min(1000 * real(store_patience, "store_patience"), 2**62)),
        )  # fmt: skip
        self._max_age, self._stale_until = options.max_age, 0.0
        self.state = as_state(state, writeable=True)
        self._handle = _core.subscriber_create(
            self.state._state, text(address, "address"), options, _store_of(store)
        )
        self._views = weakref.WeakSet()
        self._double = options.double_buffer == 1
        self._lock = threading.Lock()  # of waits for a version
        self._untold: Optional[int] = None  # came while its wait was cancelled
        _open.add(self)

    @classmethod
    def into(cls, model: Any, address: str, **options: Any) -> Subscriber:
        """Starts a subscriber that writes into a model: a torch module, or a state_dict.

        See :meth:`State.from_state_dict`. Buffers are written, too.
        """
        tensors = model.state_dict(keep_vars=True) if hasattr(model, "state_dict") else model
        return cls(State.from_state_dict(tensors), address, **options)

    @staticmethod
    def into_checkpoint(out: Path, source: str, **options: Any) -> CheckpointSubscriber:
        """Keeps a checkpoint of the file system at the newest version, replaced as a whole.

        A folder has weights, configuration and tokenizer. See :class:`CheckpointSubscriber`, whose
        options these are.
        """
        from ._checkpoint import CheckpointSubscriber

        return CheckpointSubscriber(out, source, **options)

    def next(self, timeout: Optional[float] = None) -> int:
        """Waits for a newer version and writes it to the tensors.

        Args:
            timeout: seconds until :class:`TimeoutError`; None: no limit.

        Returns:
            The version that the tensors now hold.
        """
        with self._waiting():
            version, self._untold = self._untold, None
            return _with_limit(self._take, timeout) if version is None else version

    def _take(self, seconds: float) -> int:
        return self._named_once(self._handle.next, seconds)

    # A stale version is said once in each max_age.
    def _named_once(self, call: Callable[[float, float], int], seconds: float) -> int:
        self.state.check_places()
        try:
            return call(max(0.0, self._stale_until - time.monotonic()), seconds)
        except StaleError:
            self._stale_until = time.monotonic() + self._max_age
            raise

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=2 * _PIECE):  # of a wait that was cancelled
            raise InvalidUsageError("another thread waits for a version of this subscriber")
        try:
            yield
        finally:
            self._lock.release()

    # In a thread. What it takes is untold until the coroutine, which may be cancelled, returns it.
    def _next_untold(self, seconds: float) -> None:
        with self._waiting():
            if self._untold is None:
                self._untold = self._take(seconds)

    async def next_async(self, timeout: Optional[float] = None) -> int:
        """:meth:`next` as a coroutine. A version that comes while it is cancelled comes next."""
        early = (TimeoutError, RemoteError, SystemError)
        while self._untold is None:  # another thread may take what has come
            await _in_pieces(timeout, self._next_untold, early)
        version, self._untold = self._untold, None
        return version

    def __iter__(self) -> Iterator[int]:
        """Each newer version, once the tensors hold it."""
        while True:
            yield self.next()

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield await self.next_async()

    def prepare(self, timeout: Optional[float] = None) -> int:
        """Waits for a newer version and checks it, without writing the tensors."""
        return _with_limit(self._prepare, timeout)

    def _prepare(self, seconds: float) -> int:
        return self._named_once(self._handle.prepare, seconds)

    def commit(self, version: int) -> None:
        """Writes a prepared version to the tensors."""
        self.state.check_places()
        self._handle.commit(whole(version, "version"))

    def next_group(self, comm: Comm, timeout: float = 600) -> int:
        """Waits for a newer version, and shows it on all ranks of `comm`, or on none."""
        self.state.check_places()
        return self._handle.next_of_group(_seconds(timeout), handle_of(comm, "comm", "Comm"))

    def tensor(self, name: str) -> Any:
        """A NumPy array, for reading, over a tensor of the shown version.

        With `double_buffer` the memory stays unchanged until the second :meth:`next` from now, and
        the subscriber ends when it is closed and these arrays are gone.
        """
        from ._arrays import view_of_address

        if text(name, "name") not in self.state:
            raise InvalidArgumentError(f"there is no tensor {name!r} in the state")
        number = self.state._numbers[name]
        if number is None:
            raise InvalidArgumentError(f"the state has several slices of {name!r}: use its arrays")
        array = self.state[name]
        address = self._handle.tensor_address(number)
        if not self._double:
            return view_of_address(address, array, array)[0]
        view, memory = view_of_address(address, array, self._handle)
        self._views.add(memory)
        return view

    @property
    def version(self) -> int:
        """The version that the tensors hold; 0 before the first."""
        return self._handle.versions()[0]

    @property
    def newest(self) -> int:
        """The newest version that the publisher has announced; 0 before the first."""
        return self._handle.versions()[1]

    def pin(self, version: int) -> None:
        """Limits the versions that are shown to those up to `version`; 0: no limit."""
        self._handle.pin(whole(version, "version"))

    def __repr__(self) -> str:
        return f"<sparcl.Subscriber {'closed' if self.closed else f'at version {self.version}'}>"


def _store_of(store: Optional[Store]) -> Any:
    return None if store is None else handle_of(store, "store", "Store")


def _seconds(timeout: Optional[float]) -> float:
    seconds = math.inf if timeout is None else real(timeout, "timeout")
    if seconds < 0:
        raise InvalidArgumentError(f"timeout is {seconds:g}: it is 0 or more seconds")
    return seconds


# A wait goes in pieces, so that Ctrl-C ends it. The text of an error has the whole time.
def _with_limit(call: Any, timeout: Optional[float], *given: Any) -> Any:
    try:
        return call(*given, _seconds(timeout))
    except TimeoutError as error:
        raise _with_whole_time(error, timeout) from None


def _with_whole_time(error: Error, timeout: Optional[float]) -> Error:
    if timeout is None:
        return error
    whole = rf"\1 {timeout:g} s"
    return type(error)(re.sub(r"\b(within|after) [0-9.e+-]+ s\b", whole, str(error), count=1))


# Calls `call(seconds)` in a thread until it gives something, or fails with none of `early`.
async def _in_pieces(
    timeout: Optional[float], call: Any, early: tuple[type[Error], ...]
) -> Any:
    loop = asyncio.get_running_loop()
    end = loop.time() + _seconds(timeout)
    while True:
        left = end - loop.time()
        piece = asyncio.ensure_future(asyncio.to_thread(call, max(0.0, min(_PIECE, left))))
        try:
            return await asyncio.shield(piece)
        except asyncio.CancelledError:
            piece.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        except early as error:
            if left <= _PIECE:
                raise _with_whole_time(error, timeout) from None
