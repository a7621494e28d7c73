"""A subscriber that keeps a checkpoint of the file system at the newest version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from ._choices import Path, flag, path_of, real, text, whole
from ._errors import InvalidArgumentError
from ._running import Running, option


class CheckpointSubscriber:
    """Keeps a file or folder at the newest version, by `sparcl subscribe` as a process of its own.

    >>> with sparcl.Subscriber.into_checkpoint("served", "trainer:4711") as checkpoint:
    ...     for version in checkpoint:
    ...         reload("served")

    Weights, configuration and tokenizer are replaced together. A version that fails a check, or
    cannot be written, leaves those that are there.
    """

    def __init__(
        self, out: Path, source: str, *, model_id: Optional[str] = None,
        trust: Optional[Path] = None, trust_threshold: int = 0, secret: Optional[Path] = None,
        certificates: Optional[Path] = None, max_age: float = 0, replace: bool = False,
        store: Optional[str] = None, from_store: bool = False, notify: Sequence[str] = (),
    ):  # fmt: skip
        """Starts the program.

        Args:
            out: a folder, if the publisher has folders; else a .safetensors file.
            source: "HOST:PORT" of a publisher, or the URL of a store.
            replace: also if `out` is a checkpoint of another model, which is lost then.
            store: URL of the publisher's store: versions come from there while it is away.
            notify: engines that are told: "vllm:URL", "sglang:URL" or "exec:COMMAND".

        The other options are those of :class:`sparcl.Subscriber`.
        """
        self.out = path_of(out, "out")
        if text(source, "source").startswith("-"):
            raise InvalidArgumentError(f"source is {source!r}: it is HOST:PORT, or a store's URL")
        if isinstance(notify, str):
            raise TypeError(f"notify is {notify!r}: pass a sequence of engines, [{notify!r}]")
        trust_threshold = whole(trust_threshold, "trust_threshold")
        max_age = real(max_age, "max_age")
        replace, from_store = flag(replace, "replace"), flag(from_store, "from_store")
        arguments = [source, "--out", self.out]
        for name, value in (
            ("--model-id", model_id), ("--trust", trust), ("--trust-threshold", trust_threshold),
            ("--secret", secret), ("--certificates", certificates), ("--max-age", max_age),
            ("--replace", replace), ("--store", store), ("--from-store", from_store),
        ):  # fmt: skip
            arguments += option(name, value)
        for target in notify:
            arguments += option("--notify", target)
        self._running = Running("subscribe", arguments)
        self._line = 0  # of the program's output, that next() has returned
        #: The version that :meth:`next` has returned; 0 before the first.
        self.version = 0

    def next(self, timeout: Optional[float] = None) -> int:
        """Waits until the checkpoint has a newer version.

        Args:
            timeout: seconds until :class:`sparcl.TimeoutError`; None: no limit.

        Raises:
            sparcl.Error: the program has ended; the text says why.

        Returns:
            The version. Newer ones may have come since.
        """
        what = f"a newer version than {self.version}"
        self._line, shown = self._running.wait(
            lambda line: "source" in line, what, timeout, self._line
        )
        self.version = shown["version"]
        return self.version

    def __iter__(self) -> Iterator[int]:
        """Each newer version, once the checkpoint has it."""
        while True:
            yield self.next()

    def close(self) -> None:
        """Ends the program. The checkpoint stays."""
        self._running.close()

    def __enter__(self) -> CheckpointSubscriber:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sparcl.CheckpointSubscriber of {self.out} at version {self.version}>"
