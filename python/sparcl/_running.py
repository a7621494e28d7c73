"""The program `sparcl` as a process of its own that goes on, and its lines of JSON."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from . import _errors
from ._errors import (
    Error, InvalidArgumentError, InvalidUsageError, TimeoutError, UnsupportedError,
)  # fmt: skip
from ._program import path_of_program
from ._replication import _open, _seconds
from ._words import in_python

_LINES = 4096  # that are kept
# Ends the program when standard input ends, as it does with this process, also by SIGKILL.
_UNTIL_STDIN_ENDS = """
exec 3<&0
"$@" </dev/null 3<&- & program=$!
(read -r _ <&3; kill $program) >/dev/null 2>&1 & watcher=$!
exec 3<&-
wait $program; code=$?
kill $watcher 2>/dev/null
exit $code
"""


class Running:
    """A command of the program, until :meth:`close` or the end of this process."""

    def __init__(self, command: str, arguments: Sequence[str]):
        self._owner = os.getpid()
        program = path_of_program()
        if program is None:
            raise UnsupportedError(
                "this package was built without the program: install sparcl's tools, or set "
                "SPARCL_PROGRAM"
            )
        self._name = f"sparcl {command}"
        self._lines: collections.deque[tuple[int, Any]] = collections.deque(maxlen=_LINES)
        self._count = 0
        self._said: collections.deque[str] = collections.deque(maxlen=20)
        self._unheard: collections.deque[str] = collections.deque(maxlen=20)
        self._changed = threading.Condition()
        self._streams = 2
        shell = ["/bin/sh", "-c", _UNTIL_STDIN_ENDS, "sparcl"]
        self._is_closed = False
        self._process = subprocess.Popen(
            [*shell, program, command, "--json", *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        streams = (self._process.stdout, self._process.stderr)
        own = weakref.ref(self)
        for stream, keep in zip(streams, ("_keep_line", "_keep_said")):
            threading.Thread(target=_read, args=(own, stream, keep), daemon=True).start()
        self._end = weakref.finalize(self, _end, self._process, self._owner)
        _open.add(self)

    def _keep_line(self, line: bytes) -> None:
        try:
            parsed = json.loads(line)
            self._count += 1
            self._lines.append((self._count, parsed))
        except ValueError:
            self._keep_said(line)

    def _keep_said(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        self._said.append(text)
        self._unheard.append(text)

    def wait(
        self, wanted: Callable[[dict[str, Any]], bool], what: str, timeout: Optional[float],
        after: int = 0,
    ) -> tuple[int, dict[str, Any]]:  # fmt: skip
        """Waits for a line for which `wanted` is true. What the program says is a warning.

        Args:
            what: is waited for, for the text of errors.
            after: number of a line: only later ones count.

        Returns:
            Number and content of the newest such line.
        """
        if self._is_closed:
            raise InvalidUsageError("this object is closed: make another one")
        deadline = None if timeout is None else time.monotonic() + _seconds(timeout)
        with self._changed:
            while True:
                for number, line in reversed(self._lines):
                    if number > after and line.get("ok") and wanted(line):
                        return number, line
                if not self._streams:
                    raise self._failure()
                left = None if deadline is None else deadline - time.monotonic()
                while self._unheard:
                    text = f"{self._name}: {self._unheard.popleft()}"
                    warnings.warn(text, RuntimeWarning, stacklevel=3)
                if left is not None and left <= 0:
                    said = f": {self._said[-1]}" if self._said else ""
                    raise TimeoutError(
                        f"{self._name}: {what} has not come within {timeout:g} s{said}"
                    )
                self._changed.wait(0.2 if left is None else min(left, 0.2))  # Ctrl-C ends it

    # What the program ended with.
    def _failure(self) -> Error:
        last = self._lines[-1][1] if self._lines else {}
        kind = Error
        if last.get("ok") is False:
            name = str(last.get("error", "")).removeprefix("sparcl").removesuffix("Error") + "Error"
            found = getattr(_errors, name, None)
            kind = found if isinstance(found, type) and issubclass(found, Error) else Error
            return kind(in_python(f"{self._name}: {last.get('message', '')}"))
        said = self._said[-1] if self._said else "it said nothing"
        code = self._process.wait()
        kind = InvalidArgumentError if code == 2 else Error  # by its arguments
        return kind(in_python(f"{self._name} has ended with {code}: {said}"))

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends the program: by SIGTERM, and after 10 s by SIGKILL. Not in a forked child."""
        _open.discard(self)
        self._is_closed = True
        self._end()


# Of a stream of the program, which ends with the object.
def _read(own: Any, stream: Any, keep: str) -> None:
    with stream:
        for line in stream:
            running = own()
            if running is None:
                return
            with running._changed:
                getattr(running, keep)(line)
                running._changed.notify_all()
            del running
    running = own()
    if running is not None:
        with running._changed:
            running._streams -= 1
            running._changed.notify_all()


def _end(process: Any, owner: int) -> None:
    if os.getpid() != owner:
        return
    process.stdin.close()
    if process.poll() is None:  # else its number may be another process's
        # A process that was forked from this one may hold the other end of the pipe.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def locked(path: str, timeout: float) -> Iterator[None]:
    """Holds the lock of a file, which is one process at a time on a host."""
    deadline = time.monotonic() + timeout
    with open(path, "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"another process has held the lock of {path} for {timeout:g} s: end it if "
                        "it is stuck"
                    ) from None
                time.sleep(0.05)
        yield


def option(name: str, value: Any) -> list[str]:
    """A command line option; nothing if the value is None, False or 0."""
    if value is None or value is False or value == 0:
        return []
    if value is True:
        return [name]
    return [name, os.fspath(value) if hasattr(value, "__fspath__") else str(value)]
