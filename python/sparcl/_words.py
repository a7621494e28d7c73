"""Texts of the C library, with the names that this package has."""

from __future__ import annotations

import re

_CLASSES = (
    "Comm", "State", "Publisher", "Subscriber", "Store", "Worker", "Aggregator", "Feedback", "Mask",
)  # fmt: skip
# Without "sparcl": what is not the C name in other letters.
_NAMES = {
    "CommCount": "Comm.size", "CommGetAsyncError": "Comm.error",
    "CommGetFailedRank": "Comm.failed_rank", "CommInitLocal": "Comm.local()",
    "CommInitMpi": "Comm.from_mpi()", "CommInitRank": "Comm.from_id()",
    "CommStreamSynchronize": "Comm.synchronise()", "CommUserRank": "Comm.rank",
    "FeedbackGetResidual": "Feedback.residual", "GetUniqueId": "sparcl.unique_id()",
    "MaskCreateBlocks": "Mask.random()", "MaskCreateIndices": "Mask()",
    "MaskCreateRandom": "Mask.random()", "MaskGetIndices": "Mask.indices()",
    "Publish": "Publisher.publish()", "StoreOpen": "Store()", "Test": "Request.test()",
    "Wait": "Request.wait()", "WaitAll": "Request.wait()", "On": "True", "Off": "False",
    "ResidualMean": "'mean'", "FileSideFilesOmit": "False",
}  # fmt: skip
_PROPERTIES = {"last_report", "stats", "version", "address"}
_OPTIONS = {
    "state_path": "epoch_file", "max_age_s": "max_age", "store_patience_ms": "store_patience",
}  # fmt: skip
_PATHS = "key|secret|certificates|trust|record|witness|contributors|folder"


def python_name(name: str) -> str:
    """The package's name for one of the C interface, such as sparclCommShrink."""
    bare = name.removeprefix("sparcl")
    if bare in _NAMES:
        return _NAMES[bare]
    owner = next((each for each in _CLASSES if bare.startswith(each)), "")
    rest = bare[len(owner) :]
    if rest in ("Destroy", "Close"):
        return f"{owner}.close()"
    if rest == "Create":
        return f"{owner}()"
    if bare.startswith("File"):
        owner, rest = "sparcl", bare[4:]
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", rest).lower()
    call = words if words in _PROPERTIES else f"{words}()"
    return f"{owner or 'Comm'}.{call}"


def in_python(text: str) -> str:
    """A text of the C library with the names of calls and options that this package has."""
    text = re.sub(r"\boptions\.(selection->)?(\w+)", _option, text)
    text = re.sub(rf"\b({_PATHS})_path\b", r"\1", text)
    text = re.sub(r"\bNULL\b", "None", text)
    text = re.sub(r"\bsparcl[A-Z][A-Za-z]*(?![A-Za-z_])", lambda found: python_name(found[0]), text)
    return re.sub(r"^((?:\w+\.)?\w+)\(\): ", r"\1: ", text)


def _option(found: re.Match[str]) -> str:
    return _OPTIONS.get(found[2], found[2])
