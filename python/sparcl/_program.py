"""The program `sparcl`, and its `doctor`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any, Optional


def path_of_program() -> Optional[str]:
    """SPARCL_PROGRAM, the one of this package, or one in PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sparcl")
    for path in (os.environ.get("SPARCL_PROGRAM"), own, shutil.which("sparcl")):
        if path and os.access(path, os.X_OK):
            return path
    return None
