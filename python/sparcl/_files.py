"""Checkpoints on disk, and the deltas between them. Dicts of arrays count as checkpoints, too: they
are written to a temporary file for each call."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import _core
from ._choices import (
    HASH, Hash, Path, Rounding, Select, Values, called, flag, number_of, path_of, real, text,
    text_path, texts, whole, word,
)  # fmt: skip
from ._errors import InvalidArgumentError, SystemError
from ._options import update_options

#: A .safetensors file, a folder of shards, or arrays by name.
Checkpoint = Union[Path, Mapping[str, Any]]
#: Called with the bytes that are done, and all bytes. An exception ends the call.
Progress = Callable[[int, int], None]


@contextlib.contextmanager
def _as_path(checkpoint: Checkpoint, argument: str) -> Iterator[str]:
    if not isinstance(checkpoint, Mapping):
        yield path_of(checkpoint, argument)
        return
    from ._safetensors import save

    with tempfile.TemporaryDirectory(prefix="sparcl-") as folder:
        path = os.path.join(folder, "tensors.safetensors")
        try:
            save(checkpoint, path)
        except OSError as error:
            raise SystemError(
                f"{argument} is written to a file under {tempfile.gettempdir()} for this call, and "
                f"that failed: {error}: set TMPDIR to a folder with room"
            ) from None
        yield path


def diff(
    base: Checkpoint, target: Checkpoint, output: Path, *, mode: Optional[str] = None,
    only: Sequence[str] = (), side_files: bool = True, threads: int = 0, identities: bool = False,
    select: Select = "all", threshold: float = 0, count: int = 0, bytes: int = 0,
    grid: Any = "bfloat16", values: Values = "exact", rounding: Rounding = "nearest", seed: int = 0,
    on_progress: Optional[Progress] = None,
) -> _core.FileReport:  # fmt: skip
    """Writes the delta that turns one checkpoint into another one.

    Args:
        base: checkpoint to start from.
        target: checkpoint to arrive at.
        output: path of the delta.
        mode: name as in ``sparcl diff --mode``; None: auto.
        only: globs: a tensor takes part if its name matches one.
        side_files: carry configuration and tokenizer files that changed.
        threads: that encode; 0: SPARCL_THREADS.
        identities: also name base and target by SHA-256.
        select: which changes; this and what follows as in :meth:`Comm.broadcast_update`.
    """
    options = update_options(
        select, threshold, count, bytes, grid, values, rounding, seed, None
    )
    with _as_path(base, "base") as first, _as_path(target, "target") as second:
        report, _ = _core.file_diff(
            first, second, path_of(output, "output"), word(mode, "mode"),
            texts(only, "only", "glob"), options,
            flag(side_files, "side_files"), whole(threads, "threads", most=2**31 - 1),
            flag(identities, "identities"), called(on_progress, "on_progress"),
        )  # fmt: skip
    return report


def apply(
    base: Checkpoint, delta: Path, output: Union[Path, None] = None, *,
    on_progress: Optional[Progress] = None,
) -> Any:  # fmt: skip
    """Writes the target of a delta, which is checked first.

    Args:
        base: checkpoint that the delta was made from.
        output: path of the target; may be `base`. None: arrays by name are written in place.

    Returns:
        The report.
    """
    if output is None:
        if isinstance(base, Mapping):
            return _apply_to_arrays(base, delta, called(on_progress, "on_progress"))
        raise InvalidArgumentError(
            f"output is None: pass a path of the target, which may be {base!r} itself"
        )
    with _as_path(base, "base") as first:
        report, _ = _core.file_apply(
            first, path_of(delta, "delta"), path_of(output, "output"),
            called(on_progress, "on_progress"),
        )  # fmt: skip
    return report


def _apply_to_arrays(base: Mapping[str, Any], delta: Path, on_progress: Any) -> _core.FileReport:
    from ._safetensors import load_into

    with tempfile.TemporaryDirectory(prefix="sparcl-") as folder, _as_path(base, "base") as first:
        target = os.path.join(folder, "target.safetensors")
        report, _ = _core.file_apply(first, path_of(delta, "delta"), target, on_progress)
        load_into(target, base)
    return report


def verify(path: Path, *, on_progress: Optional[Progress] = None) -> _core.FileReport:
    """Checks all checksums of a delta, or the structure of a checkpoint."""
    return _core.file_verify(path_of(path, "path"), called(on_progress, "on_progress"))[0]


def compose(
    deltas: Sequence[Path], output: Path, base: Optional[Path] = None, *,
    on_progress: Optional[Progress] = None,
) -> _core.FileReport:  # fmt: skip
    """Writes several deltas as one. Each must begin where the one before it ends."""
    return _core.file_compose(
        texts(deltas, "deltas", "path"), text_path(base, "base"), path_of(output, "output"),
        called(on_progress, "on_progress"),
    )[0]  # fmt: skip


def invert(
    base: Path, delta: Path, output: Path, *, on_progress: Optional[Progress] = None
) -> _core.FileReport:
    """Writes the delta that leads from the target of a delta back to its base."""
    return _core.file_invert(
        path_of(base, "base"), path_of(delta, "delta"), path_of(output, "output"),
        called(on_progress, "on_progress"),
    )[0]  # fmt: skip


def convert(
    input: Path, output: Path, to: str, *, source: Optional[str] = None,
    base: Optional[Path] = None, on_progress: Optional[Progress] = None,
) -> _core.FileReport:  # fmt: skip
    """Writes a change in the layout of another program, or such a file as a delta.

    Args:
        to: layout of the output: "sparcl" is a delta; ``sparcl convert --help`` has the others.
        source: layout of the input; None: as the file looks.
        base: checkpoint that the change is for.
    """
    return _core.file_convert(
        path_of(input, "input"), word(source, "source"), path_of(output, "output"), text(to, "to"),
        text_path(base, "base"), called(on_progress, "on_progress"),
    )[0]


def hash(checkpoint: Checkpoint, kind: Hash = "state") -> str:
    """Computes a hash of a checkpoint: hexadecimal digits.

    Args:
        kind: "state" (by which deltas name base and target), "xxh3", "sha256" or "identity".
    """
    with _as_path(checkpoint, "checkpoint") as path:
        return _core.file_hash(path, number_of(HASH, kind, "kind"), None)[0].hash


def sign(
    path: Path, key: Path, *, signature: Optional[Path] = None, model_id: Optional[str] = None,
    version: int = 0, valid_seconds: float = 0, add: bool = False,
) -> _core.FileReport:  # fmt: skip
    """Signs a file, or all files of a folder, by Ed25519.

    Args:
        key: file of secret keys (``sparcl keygen``); each of them signs.
        signature: path of the signature file; None: path + ".sparcl-sig".
        valid_seconds: from now until it expires; 0: never.
        add: to the signature file that is there.
    """
    return _core.file_sign(
        path_of(path, "path"), path_of(key, "key"), text_path(signature, "signature"),
        word(model_id, "model_id"), whole(version, "version"),
        real(valid_seconds, "valid_seconds"), flag(add, "add"),
    )[0]


def verify_signature(
    path: Path, trust: Path, *, signature: Optional[Path] = None, model_id: Optional[str] = None,
    min_version: int = 0, trust_threshold: int = 0,
) -> _core.FileReport:  # fmt: skip
    """Checks that a file or folder is what was signed: all of its files, and no others.

    Args:
        trust: file of public keys, `trust_threshold` of which must have signed.
    """
    return _core.file_verify_signature(
        path_of(path, "path"), path_of(trust, "trust"), text_path(signature, "signature"),
        word(model_id, "model_id"), whole(min_version, "min_version"),
        whole(trust_threshold, "trust_threshold", most=2**31 - 1),
    )[0]  # fmt: skip


def advise(
    first: Checkpoint, second: Checkpoint, *, link_gbit: float = 100, ranks: int = 8
) -> _core.Advice:
    """Says whether a sparse broadcast of a change pays, and in which mode. Writes no file.

    Args:
        first, second: a checkpoint, and the same one step later.
        link_gbit: link between two ranks, Gbit/s.
        ranks: that hold the state, the root included.
    """
    with _as_path(first, "first") as one, _as_path(second, "second") as two:
        return _core.file_advise(
            one, two, real(link_gbit, "link_gbit"), whole(ranks, "ranks", most=2**31 - 1)
        )
