"""SGLang: a hook that feeds `/pull_weights`. See sglang.py for versions.

    --custom-pull-weights-pre-read-hook sparcl.engines.sglang_pull.fetch
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from .. import Subscriber
from .._errors import InvalidArgumentError, StaleError
from .._running import locked


def fetch(source_dir: Any, target_version: int) -> None:
    """Brings the folder weight_vN to this host, before `/pull_weights` reads it.

    The counterpart of :func:`sparcl.engines.slime.publish`, for hosts without a shared file system:
    SPARCL_ENGINES_SOURCE is the address of its publisher, or the URL of its store. The replica in
    `source_dir` takes deltas; weight_vN has its files, as hard links.
    """
    source = os.environ.get("SPARCL_ENGINES_SOURCE")
    if not source:
        raise InvalidArgumentError("SPARCL_ENGINES_SOURCE is not set: it says who publishes")
    replica = os.path.join(source_dir, ".sparcl")
    folder = os.path.join(source_dir, f"weight_v{target_version:06d}")
    os.makedirs(source_dir, exist_ok=True)
    seconds = float(os.environ.get("SPARCL_ENGINES_TIMEOUT", "600"))
    with locked(os.path.join(source_dir, ".sparcl-lock"), 2 * seconds):  # all ranks call the hook
        if os.path.isdir(folder):
            return
        options = {"secret": os.environ.get("SPARCL_ENGINES_REPLICA_SECRET")}
        with Subscriber.into_checkpoint(replica, source, **options) as checkpoint:
            while checkpoint.version < target_version + 1:  # version 1 is what SGLang began with
                checkpoint.next(seconds)
        if checkpoint.version != target_version + 1:
            raise StaleError(f"{folder} is not there any more: the publisher has a later version")
        for old in [each for each in os.listdir(source_dir) if each.startswith("weight_v")]:
            shutil.rmtree(os.path.join(source_dir, old))
        shutil.copytree(replica, folder + ".new", copy_function=os.link, dirs_exist_ok=True)
        os.rename(folder + ".new", folder)
