"""Hook of slime and miles: publishes each folder of weights that they write.

Written for `--custom-update-weight-post-write-path` of slime, August 2026. slime calls the hook on
all ranks with a folder that is written, and in delta mode once before with the empty folder of all:

    --update-weight-mode delta --update-weight-transport disk --update-weight-disk-dir /shared/sync
    --custom-update-weight-post-write-path sparcl.engines.slime.publish

Folders are published by `sparcl publish --watch`: replicas anywhere get deltas, and check each
version. Variables say where: SPARCL_ENGINES_LISTEN ("HOST:PORT") for replicas, SPARCL_ENGINES_STORE
(a URL) for a store, or both. docs/guides/engines.md has the other variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from .._errors import InvalidUsageError
from .._running import Running, option

_VERSION = re.compile(r"weight_v\d+$")
_OPTIONS = {
    "SPARCL_ENGINES_LISTEN": "--listen", "SPARCL_ENGINES_STORE": "--store",
    "SPARCL_ENGINES_SECRET": "--secret", "SPARCL_ENGINES_CERTIFICATES": "--certificates",
    "SPARCL_ENGINES_KEY": "--key", "SPARCL_ENGINES_MODEL_ID": "--model-id",
}  # fmt: skip
_publishers: dict[str, Running] = {}


def publish(args: Any, version_dir: Any, rollout_engines: Sequence[Any] = ()) -> int:
    """Waits until a folder is published, on rank 0. At first it starts a publisher.

    The checkpoint that the engines begin with, `args.hf_checkpoint`, is version 1, so the folder
    weight_vN is version N + 1.

    Raises:
        sparcl.Error: the folder was not published in time, or cannot be. Replicas and engines keep
            what they have.

    Returns:
        The version; 0 on other ranks, and for the folder of all.
    """
    if _rank() != 0:
        return 0
    folder = os.path.abspath(os.fspath(version_dir))
    if not _VERSION.search(folder):
        _start(folder, args)
        return 0
    above, name = os.path.split(folder)
    running = _publishers.get(above)
    if running is None or running.ended:
        running = _start(above, args)
    seconds = float(os.environ.get("SPARCL_ENGINES_TIMEOUT", "600"))
    what = f"the publication of {name}"
    _, line = running.wait(
        lambda each: os.path.basename(each.get("file", "")) == name, what, seconds
    )
    return int(line["version"])


def address() -> str:
    """The address for replicas, "HOST:PORT", of the publisher that was started last."""
    if not _publishers:
        raise InvalidUsageError("no folder has been published: there is no address yet")
    running = list(_publishers.values())[-1]
    return running.wait(lambda line: "address" in line, "the address", 30)[1]["address"]


def close() -> None:
    """Ends all publishers, as the end of the process does."""
    while _publishers:
        _publishers.popitem()[1].close()


def _start(above: str, args: Any) -> Running:
    if above in _publishers:  # a run has begun anew
        _publishers.pop(above).close()
    _link_base(above, getattr(args, "hf_checkpoint", None))
    arguments = ["--watch", above]
    for variable, name in _OPTIONS.items():
        arguments += option(name, os.environ.get(variable) or None)
    running = _publishers[above] = Running("publish", arguments)
    return running


# slime writes no version 0, because its engines begin with the checkpoint of Hugging Face.
def _link_base(above: str, base: Any) -> None:
    first = os.path.join(above, "weight_v000000")
    if base and os.path.isdir(base) and not os.path.lexists(first):
        os.symlink(os.path.abspath(base), first)


def _rank() -> int:
    try:
        import torch.distributed as ranks
    except ImportError:
        return 0
    return ranks.get_rank() if ranks.is_available() and ranks.is_initialized() else 0
