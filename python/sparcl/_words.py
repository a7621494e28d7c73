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
    "ResidualMean": "'mean'", "FileSideFilesOmit": "False", "Float8e4m3": "float8_e4m3fn",
    "Float8e5m2": "float8_e5m2",
}  # fmt: skip
_WORDS = (
    "Sum Prod Max Min Avg Float64 Float32 Float16 Bfloat16 Int64 Int32 Int16 Int8 Uint8 Bool"
).split()
_ERRORS = (
    "SystemError InternalError InvalidArgument InvalidUsage RemoteError Timeout Mismatch Corrupt "
    "Unsupported OutOfMemory WrongBase Unauthorized Truncated Stale"
).split()
_VERBS = ("AllReduce", "Broadcast", "Aggregate", "IAllReduce", "IBroadcast", "IAggregate", "File")
_PROPERTIES = {"last_report", "stats", "version", "address"}
_OPTIONS = {
    "state_path": "epoch_file", "max_age_s": "max_age", "store_patience_ms": "store_patience",
    "deadline_s": "deadline", "lease_s": "lease_seconds", "timeout_s": "timeout",
    "valid_s": "valid_seconds",
}  # fmt: skip
_PATHS = "key|secret|certificates|trust|record|witness|contributors"
_OWN = (
    "activation adds adopt algorithm anchor_every beta2 chain clip_l2 clip_median commit count "
    "deadline_s delay determinism device_kernels double_buffer epsilon from_store grid insecure "
    "keep keep_versions late_factor lease_seconds lease_s listen max_age_s mean mode model_id "
    "momentum non_finite number only outer outside parent peer_bytes publish queue quorum relay "
    "residual reuse_threshold round rounding seed select shared_memory side_files single_writer "
    "store store_patience_ms threads threshold timeout_s trust_threshold values verify weight wire"
).split()
# A word by itself: no part of a path, a name in quotes, or a file's name.
_ALONE, _ENDS = r"(?<![\w/.\-'\"])", r"(?![\w/\-'\"]|\.\w)"
_OPTION = re.compile(
    rf"{_ALONE}options\.(?:selection->)?((?:{_PATHS}|state)_path|{'|'.join(_OWN)}){_ENDS}"
)
_PATH = re.compile(rf"{_ALONE}({_PATHS})_path{_ENDS}")
_NULL = re.compile(rf"{_ALONE}NULL{_ENDS}")
_UNITS = re.compile(rf"{_ALONE}(max_age_s|store_patience_ms|valid_s){_ENDS}")
_CALL = re.compile(rf"{_ALONE}sparcl[A-Z][A-Za-z0-9]*(?:_t)?{_ENDS}")


def python_name(name: str) -> str:
    """The package's name for one of the C interface, such as sparclCommShrink."""
    bare = name.removeprefix("sparcl")
    if bare in _NAMES:
        return _NAMES[bare]
    if bare in _WORDS:
        return f"'{bare.lower()}'"
    if bare in _ERRORS:
        return bare if bare.endswith("Error") else bare + "Error"
    if bare in [f"{each}_t" for each in _CLASSES]:
        return bare[:-2]
    owner = next((each for each in _CLASSES if bare.startswith(each)), "")
    if not owner and not bare.startswith(_VERBS):
        return name  # none that is known
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
    text = _OPTION.sub(lambda found: _OPTIONS.get(found[1], found[1]), text)
    text = _PATH.sub(r"\1", text)
    text = _NULL.sub("None", text)
    text = _UNITS.sub(lambda found: _OPTIONS[found[1]], text)
    text = re.sub(r"^(\w+: )config\.", r"\1", text)
    text = _CALL.sub(lambda found: python_name(found[0]), text)
    return re.sub(r"((?:\w+\.)?\w+)\(\)(?=: |\()", r"\1", text, count=1)
