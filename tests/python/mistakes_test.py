"""Mistakes that people make: each is an exception with a cure, and what they had is unchanged."""

import numpy as np
import pytest

import sparcl

ARGUMENT = sparcl.InvalidArgumentError
USAGE = sparcl.InvalidUsageError


def x(count=10, dtype=np.float32):
    return np.ones(count, dtype)


def frozen(array):
    array.flags.writeable = False
    return array


def big_endian():
    return np.ones(10, ">f4")


class Bad:
    """An array-like whose facts are wrong."""

    def __dlpack__(self, **options):
        raise RuntimeError("the device is gone")

    def __dlpack_device__(self):
        return (1, 0)


# Name, call of a communicator of one rank, exception, words of its text.
COLLECTIVES = [
    ("list", lambda c: c.all_reduce_top_k([1.0, 2.0], 1), TypeError, "NumPy"),
    ("none", lambda c: c.all_reduce_top_k(None, 1), TypeError, "NumPy"),
    ("number", lambda c: c.all_reduce_top_k(3.0, 1), TypeError, "NumPy"),
    ("text", lambda c: c.all_reduce_top_k("abc", 1), TypeError, "NumPy"),
    ("complex", lambda c: c.all_reduce_top_k(x(dtype=complex), 1), ARGUMENT, "types are float32"),
    ("objects", lambda c: c.all_reduce_top_k(x(dtype=object), 1), ARGUMENT, "types are"),
    ("strings", lambda c: c.all_reduce_top_k(np.array(["a"]), 1), ARGUMENT, "types are"),
    ("records", lambda c: c.all_reduce_top_k(np.zeros(3, "f4,i4"), 1), ARGUMENT, "types are"),
    ("dates", lambda c: c.all_reduce_top_k(np.zeros(3, "M8[s]"), 1), ARGUMENT, "types are|gives no memory"),
    ("long double", lambda c: c.all_reduce_top_k(x(dtype=np.longdouble), 1), ARGUMENT, "types are"),
    ("big endian", lambda c: c.all_reduce_top_k(big_endian(), 1), ARGUMENT, "byte order"),
    ("k too large", lambda c: c.all_reduce_top_k(x(), 11), ARGUMENT, "k"),
    ("k negative", lambda c: c.all_reduce_top_k(x(), -1), ARGUMENT, "k is -1: it is 0 to"),
    ("k a float", lambda c: c.all_reduce_top_k(x(), 1.5), TypeError, "k is 1.5: it is a whole number"),
    ("k missing", lambda c: c.all_reduce_top_k(x()), TypeError, "k"),
    ("op", lambda c: c.all_reduce_top_k(x(), 1, op="add"), ARGUMENT, "'sum', 'prod'"),
    ("op max of top-k", lambda c: c.all_reduce_top_k(x(), 1, op="max"), sparcl.Error, None),
    ("mode", lambda c: c.all_reduce_top_k(x(), 1, mode="both"), ARGUMENT, "'union', 'selected'"),
    ("wire", lambda c: c.all_reduce_top_k(x(), 1, wire="fp8"), ARGUMENT, "'bfloat16', 'int8'"),
    ("wire a number", lambda c: c.all_reduce_top_k(x(), 1, wire=8), ARGUMENT, "'int8'"),
    ("toggle", lambda c: c.all_reduce_top_k(x(), 1, reuse_threshold=1), ARGUMENT, "True, False or None"),
    ("algorithm", lambda c: c.all_reduce_top_k(x(), 1, algorithm="fastest"), ARGUMENT, "fastest"),
    ("out too short", lambda c: c.all_reduce_top_k(x(), 1, out=x(9)), ARGUMENT, "10 and 9 elements"),
    ("out of another type", lambda c: c.all_reduce_top_k(x(), 1, out=x(dtype=np.float64)), ARGUMENT, "float32 and float64"),
    ("out read-only", lambda c: c.all_reduce_top_k(x(), 1, out=frozen(x())), ARGUMENT, "read-only"),
    ("out a slice with steps", lambda c: c.all_reduce_top_k(x(), 1, out=x(20)[::2]), ARGUMENT, "not contiguous"),
    ("out a list", lambda c: c.all_reduce_top_k(x(), 1, out=[0] * 10), TypeError, "out is a list"),
    ("out bytes", lambda c: c.all_reduce_top_k(np.zeros(3, np.uint8), 1, out=b"abc"), sparcl.Error, "read-only|not support"),
    ("out overlaps", lambda c: (lambda a: c.all_reduce_top_k(a[:10], 1, out=a[5:15]))(x(20)), ARGUMENT, "overlap"),
    ("tensors do not add up", lambda c: c.all_reduce_top_k(x(), 1, tensors=[3, 3]), ARGUMENT, None),
    ("stream of the host", lambda c: c.all_reduce_top_k(x(), 1, stream=1234), sparcl.UnsupportedError, "stream"),
    ("stream a word", lambda c: c.all_reduce_top_k(x(), 1, stream="main"), ARGUMENT, "CUDA stream"),
    ("feedback a word", lambda c: c.all_reduce_top_k(x(), 1, feedback="yes"), TypeError, "sparcl.Feedback"),
    ("feedback of another count", lambda c: c.all_reduce_top_k(x(), 1, feedback=sparcl.Feedback(9)), ARGUMENT, "9"),
    ("feedback of another type", lambda c: c.all_reduce_top_k(x(), 1, feedback=sparcl.Feedback(10, "float64")), ARGUMENT, "float64"),
    ("integers of 8 bits", lambda c: c.all_reduce_top_k(x(dtype=np.int8), 1), sparcl.Error, "int8"),
    ("unknown option", lambda c: c.all_reduce_top_k(x(), 1, ratio=0.1), TypeError, "ratio"),
    ("broken dlpack", lambda c: c.all_reduce_top_k(Bad(), 1, out=x()), (ARGUMENT, RuntimeError), "DLPack|device is gone"),
    ("mask a list", lambda c: c.all_reduce_masked(x(), [1, 2]), TypeError, "sparcl.Mask"),
    ("mask of another count", lambda c: c.all_reduce_masked(x(), sparcl.Mask.random(9, 0.5)), ARGUMENT, "9"),
    ("outside", lambda c: c.all_reduce_masked(x(), sparcl.Mask.random(10, 0.5), out=x(), outside="nan"), ARGUMENT, "'keep', 'zero'"),
    ("indices int32", lambda c: c.all_reduce_sparse(x(2), np.array([1, 2], np.int32), 10), ARGUMENT, "uint64 or int64"),
    ("indices floats", lambda c: c.all_reduce_sparse(x(2), np.array([1.0, 2.0]), 10), ARGUMENT, "uint64 or int64"),
    ("indices too large", lambda c: c.all_reduce_sparse(x(2), np.array([1, 10]), 10), ARGUMENT, "10"),
    ("indices negative", lambda c: c.all_reduce_sparse(x(2), np.array([1, -1]), 10), ARGUMENT, None),
    ("more indices", lambda c: c.all_reduce_sparse(x(2), np.arange(3), 10), ARGUMENT, "same number"),
    ("count negative", lambda c: c.all_reduce_sparse(x(2), np.arange(2), -1), ARGUMENT, "count is -1"),
    ("capacity negative", lambda c: c.all_reduce_sparse(x(2), np.arange(2), 10, capacity=-1), ARGUMENT, "capacity is -1"),
    ("root a text", lambda c: c.broadcast_delta(x(), root="0"), TypeError, "root is '0': it is a whole number"),
    ("lengths negative", lambda c: c.all_reduce_top_k(x(), 1, tensors=[11, -1]), ARGUMENT, "-1"),
    ("threads a text", lambda c: sparcl.Comm.from_id(sparcl.unique_id(), 1, 0, threads="two"), ARGUMENT, "threads is 'two'"),
    ("count a text", lambda c: c.all_reduce_sparse(x(2), np.arange(2), "10"), TypeError, None),
    ("root", lambda c: c.broadcast_delta(x(), root=1), ARGUMENT, "root"),
    ("root negative", lambda c: c.broadcast_delta(x(), root=-1), ARGUMENT, "root"),
    ("base too short", lambda c: c.broadcast_delta(x(), x(9)), ARGUMENT, "10 and 9"),
    ("base of another type", lambda c: c.broadcast_delta(x(), x(dtype=np.int32)), ARGUMENT, "float32 and int32"),
    ("verify", lambda c: c.broadcast_delta(x(), verify="all"), ARGUMENT, "'touched', 'full'"),
    ("commit", lambda c: c.broadcast_delta(x(), commit="late"), ARGUMENT, "'staged', 'early'"),
    ("weights read-only", lambda c: c.broadcast_delta(frozen(x())), ARGUMENT, "read-only"),
    ("state a dict", lambda c: c.broadcast_update({"w": x()}, 1), TypeError, "sparcl.State"),
    ("version 0 of a root", lambda c: c.broadcast_update(sparcl.State({"w": x()})), ARGUMENT, "version"),
    ("version negative", lambda c: c.broadcast_update(sparcl.State({"w": x()}), -1), ARGUMENT, "version is -1"),
    ("select", lambda c: c.broadcast_update(sparcl.State({"w": x()}), 1, select="best"), ARGUMENT, "'top_k'"),
    ("grid", lambda c: c.broadcast_update(sparcl.State({"w": x()}), 1, select="grid", grid="bf8"), ARGUMENT, "bf8"),
    ("unsorted indices of a broadcast", lambda c: c.broadcast_sparse(x(2), np.array([2, 1])), ARGUMENT, "ascend"),
    ("values without indices", lambda c: c.broadcast_sparse(x(2)), TypeError, "indices is a NoneType"),
    ("closed", lambda c: (c.close(), c.all_reduce_top_k(x(), 1)), USAGE, "closed"),
    ("closed twice is no mistake, its use is", lambda c: (c.close(), c.close(), c.last_report), USAGE, "closed"),
    ("shrink of what is whole", lambda c: c.shrink(), sparcl.Error, None),
    ("nccl without a gpu", lambda c: c.use_nccl(), (sparcl.UnsupportedError, USAGE), None),
]  # fmt: skip

# Name, call with a folder, exception, words of its text.
OBJECTS = [
    ("no ranks", lambda d: sparcl.Comm.local(0), ARGUMENT, None),
    ("ranks negative", lambda d: sparcl.Comm.local(-3), ARGUMENT, None),
    ("ranks a text", lambda d: sparcl.Comm.local("3"), TypeError, None),
    ("id too short", lambda d: sparcl.Comm.from_id(b"short", 2, 0), ARGUMENT, "5 bytes"),
    ("id a text", lambda d: sparcl.Comm.from_id("x" * 128, 2, 0), TypeError, "id is a str"),
    ("rank beyond", lambda d: sparcl.Comm.from_id(sparcl.unique_id(), 1, 1), ARGUMENT, "rank"),
    ("transport", lambda d: sparcl.Comm.from_id(sparcl.unique_id(), 1, 0, transport="rdma"), ARGUMENT, "rdma"),
    ("mpi of a text", lambda d: sparcl.Comm.from_mpi("world"), sparcl.Error, "mpi4py"),
    ("mask unsorted", lambda d: sparcl.Mask(np.array([3, 1]), 10), ARGUMENT, "ascend"),
    ("mask beyond", lambda d: sparcl.Mask(np.array([10]), 10), ARGUMENT, "10"),
    ("mask of floats", lambda d: sparcl.Mask(np.array([1.0]), 10), ARGUMENT, "int64"),
    ("density", lambda d: sparcl.Mask.random(10, 1.5), ARGUMENT, "density"),
    ("density nan", lambda d: sparcl.Mask.random(10, float("nan")), ARGUMENT, "density"),
    ("mask of a negative count", lambda d: sparcl.Mask(np.array([1]), -1), ARGUMENT, "count is -1"),
    ("seed negative", lambda d: sparcl.Mask.random(10, 0.5, -1), ARGUMENT, "seed is -1"),
    ("density a text", lambda d: sparcl.Mask.random(10, "half"), TypeError, "density is 'half'"),
    ("feedback negative", lambda d: sparcl.Feedback(-1), ARGUMENT, "count is -1"),
    ("feedback type", lambda d: sparcl.Feedback(10, "complex64"), ARGUMENT, "complex64"),
    ("feedback of bytes", lambda d: sparcl.Feedback(10, "uint8"), sparcl.UnsupportedError, None),
    ("feedback missing", lambda d: sparcl.Feedback.load(d / "none"), sparcl.SystemError, "none"),
    ("feedback of another file", lambda d: ((d / "f").write_text("no"), sparcl.Feedback.load(d / "f")), sparcl.Error, "f"),
    ("state of a list", lambda d: sparcl.State([x(), x()]), (TypeError, ValueError), None),
    ("state of numbers", lambda d: sparcl.State({"w": 3}), TypeError, "tensor 'w'"),
    ("state of names", lambda d: sparcl.State({1: x()}), ARGUMENT, "name"),
    ("state twice", lambda d: sparcl.State([("w", x()), ("w", x())]), ARGUMENT, "w"),
    ("state without a name", lambda d: sparcl.State({"": x()}), ARGUMENT, None),
    ("state with shared memory", lambda d: (lambda a: sparcl.Publisher({"a": a, "b": a}))(x()), ARGUMENT, "memory"),
    ("state of a view", lambda d: sparcl.State({"w": np.ones((4, 4), np.float32).T}), ARGUMENT, "tensor 'w' is not contiguous"),
    ("state read-only", lambda d: sparcl.State({"w": frozen(x())}), ARGUMENT, "tensor 'w' is read-only"),
    ("slice beyond", lambda d: sparcl.State().add_slice("w", x(), [12], [5]), ARGUMENT, None),
    ("slice without dimensions", lambda d: sparcl.State().add_slice("w", x(), [12, 2], [5, 0]), ARGUMENT, "number of dimensions"),
    ("master of bfloat", lambda d: sparcl.State().add_master("w", x(dtype=np.float64), "bfloat16"), ARGUMENT, "float32"),
    ("master to int8", lambda d: sparcl.State().add_master("w", x(), "int8"), ARGUMENT, None),
    ("marks of an unknown tensor", lambda d: sparcl.State({"w": x()}).mark_indices("v", np.array([1])), ARGUMENT, "v"),
    ("marks beyond", lambda d: sparcl.State({"w": x()}).mark_indices("w", np.array([10])), ARGUMENT, "10"),
    ("marks as a list", lambda d: sparcl.State({"w": x()}).mark_indices("w", [1]), TypeError, "indices is a list"),
    ("state closed", lambda d: (lambda s: (s.close(), s.hash()))(sparcl.State({"w": x()})), USAGE, "closed"),
    ("state in use", lambda d: (lambda s: (sparcl.Publisher(s), s.close()))(sparcl.State({"w": x()})), USAGE, None),
    ("address", lambda d: sparcl.Subscriber({"w": x()}, "nowhere"), ARGUMENT, "HOST:PORT|nowhere"),
    ("port", lambda d: sparcl.Subscriber({"w": x()}, "127.0.0.1:99999"), ARGUMENT, "99999"),
    ("listen", lambda d: sparcl.Publisher({"w": x()}, "0.0.0.0:0"), sparcl.Error, "insecure|secret"),
    ("secret missing", lambda d: sparcl.Publisher({"w": x()}, secret=d / "none"), sparcl.Error, "none"),
    ("model id", lambda d: sparcl.Publisher({"w": x()}, model_id="a\x00b"), ARGUMENT, None),
    ("version twice", lambda d: (lambda p: (p.publish(1), p.publish(1)))(sparcl.Publisher({"w": x()})), ARGUMENT, "1"),
    ("bitmap too short", lambda d: sparcl.State({"w": x(1000)}).mark_blocks("w", np.zeros(1, np.uint64), 10), ARGUMENT, "bitmap has 1 words"),
    ("blocks of nothing", lambda d: sparcl.State({"w": x()}).mark_blocks("w", np.zeros(1, np.uint64), 0), ARGUMENT, "block is 0"),
    ("transport with a NUL", lambda d: sparcl.Comm.from_id(sparcl.unique_id(), 1, 0, transport="uc\0x"), ARGUMENT, "NUL"),
    ("globs a text", lambda d: sparcl.diff({"w": x()}, {"w": x() + 1}, d / "d", only="w*"), TypeError, "sequence of globs"),
    ("deltas a path", lambda d: sparcl.compose(d / "d", d / "e"), TypeError, "sequence of paths"),
    ("timeout a text", lambda d: sparcl.Publisher({"w": x()}).wait(1, timeout="0.3"), TypeError, "timeout is '0.3': it is a number"),
    ("a list of arrays", lambda d: sparcl.Publisher([x()]), TypeError, "a list is no model: pass a dict of arrays"),
    ("an array for a model", lambda d: sparcl.Publisher(x()), TypeError, "a ndarray is no model"),
    ("numbers for a model", lambda d: sparcl.Store(f"file:{d}/s").restore([1, 2]), TypeError, "a list is no model"),
    ("a url for a store", lambda d: sparcl.Publisher({"w": x()}, store="file:x"), TypeError, "pass a sparcl.Store"),
    ("another array", lambda d: (lambda m: (p := sparcl.Publisher(m), m.update(w=x() + 1), p.publish()))({"w": x()}), USAGE, "'w' is another array"),
    ("apply without an output", lambda d: sparcl.apply(d / "a.safetensors", d / "d"), ARGUMENT, "output is None"),
    ("queue negative", lambda d: sparcl.Publisher({"w": x()}, queue=-1), ARGUMENT, "queue is -1"),
    ("address a number", lambda d: sparcl.Subscriber({"w": x()}, 7), TypeError, "address is 7"),
    ("url a path", lambda d: sparcl.Store(d), TypeError, "url is .*: it is text"),
    ("version a text", lambda d: sparcl.Publisher({"w": x()}).publish("1"), TypeError, "version is '1'"),
    ("publisher closed", lambda d: (lambda p: (p.close(), p.publish(1)))(sparcl.Publisher({"w": x()})), USAGE, "closed"),
    ("no store", lambda d: sparcl.Publisher({"w": x()}).wait_stored(1, 0.1), USAGE, "store"),
    ("nobody listens", lambda d: sparcl.Publisher({"w": x()}).wait(1, timeout=0.35), sparcl.TimeoutError, "after 0.35 s"),
    ("timeout nan", lambda d: sparcl.Publisher({"w": x()}).wait(1, timeout=float("nan")), ARGUMENT, "timeout is nan"),
    ("from_store alone", lambda d: sparcl.Subscriber({"w": x()}, "127.0.0.1:1", from_store=True), ARGUMENT, "store"),
    ("commit of nothing", lambda d: sparcl.Subscriber({"w": x()}, "127.0.0.1:1").commit(1), USAGE, "prepared"),
    ("tensor unknown", lambda d: sparcl.Subscriber({"w": x()}, "127.0.0.1:1").tensor("v"), ARGUMENT, "'v'"),
    ("url", lambda d: sparcl.Store("ftp://host"), sparcl.UnsupportedError, "s3://"),
    ("chain", lambda d: sparcl.Store(f"file:{d}/s", chain="long"), ARGUMENT, "'hybrid'"),
    ("keep nothing", lambda d: (lambda s: (s.publish({"w": x()}), s.prune()))(sparcl.Store(f"file:{d}/s")), ARGUMENT, None),
    ("version unknown", lambda d: (lambda s: (s.publish({"w": x()}), s.restore({"w": x()}, 9)))(sparcl.Store(f"file:{d}/s")), ARGUMENT, "9"),
    ("other tensors", lambda d: (lambda s: (s.publish({"w": x()}), s.restore({"v": x()})))(sparcl.Store(f"file:{d}/s")), sparcl.MismatchError, "v"),
    ("list what is not there", lambda d: sparcl.Store(f"file:{d}/s").list(), sparcl.SystemError, "A publisher makes the store"),
    ("verify what is not there", lambda d: sparcl.Store(f"file:{d}/s").verify(), sparcl.SystemError, "is the path right"),
    ("copy what is not there", lambda d: sparcl.Store(f"file:{d}/s").copy(sparcl.Store(f"file:{d}/t")), sparcl.SystemError, "cannot be opened"),
    ("copy to a text", lambda d: sparcl.Store(f"file:{d}/s").copy("file:/x"), TypeError, "sparcl.Store"),
    ("diff of nothing", lambda d: sparcl.diff(d / "a", d / "b", d / "c"), sparcl.SystemError, "a"),
    ("diff of a list", lambda d: sparcl.diff([1], [2], d / "c"), TypeError, None),
    ("apply of no delta", lambda d: ((d / "x").write_bytes(b"no delta"), sparcl.apply({"w": x()}, d / "x")), sparcl.CorruptError, "x"),
    ("output is an input", lambda d: (sparcl.diff({"w": x()}, {"w": x() + 1}, d / "d"), sparcl.compose([d / "d"], d / "d")), ARGUMENT, None),
    ("kind of hash", lambda d: sparcl.hash({"w": x()}, "md5"), ARGUMENT, "'sha256'"),
    ("layout", lambda d: (sparcl.diff({"w": x()}, {"w": x() + 1}, d / "d"), sparcl.convert(d / "d", d / "e", "nothing")), sparcl.Error, "nothing"),
    ("progress no function", lambda d: sparcl.diff({"w": x()}, {"w": x() + 1}, d / "d", on_progress=7), TypeError, "it is a function"),
    ("progress of one argument", lambda d: sparcl.diff({"w": x()}, {"w": x() + 1}, d / "d", on_progress=lambda done: 0), TypeError, "argument"),
]  # fmt: skip


def check_text(text):
    assert text
    assert "incompatible function arguments" not in text  # nanobind's, about types of the binding


def test_there_are_a_hundred():
    names = [each[0] for each in COLLECTIVES + OBJECTS]
    assert len(set(names)) == len(names) >= 100


@pytest.mark.parametrize("name, call, error, words", COLLECTIVES, ids=[c[0] for c in COLLECTIVES])
def test_collective(alone, name, call, error, words):
    with pytest.raises(error, match=words) as raised:
        call(alone)
    check_text(str(raised.value))


@pytest.mark.parametrize("name, call, error, words", OBJECTS, ids=[c[0] for c in OBJECTS])
def test_object(tmp_path, name, call, error, words):
    with pytest.raises(error, match=words) as raised:
        call(tmp_path)
    check_text(str(raised.value))


# --- words ---


# Every call of the C headers has a name here, which exists.
def test_texts_of_the_library_have_the_package_s_names():
    import re
    from pathlib import Path

    from sparcl._words import in_python, python_name

    headers = Path(__file__).parents[2] / "include" / "sparcl"
    calls = set()
    for header in headers.glob("*.h"):
        calls |= set(re.findall(r"sparclResult_t (sparcl[A-Z]\w*)\(", header.read_text()))
    calls -= {"sparclInternalCommInitMpi", "sparclGetVersion", "sparclIBroadcastSparse", "sparclIAggregate",
              "sparclFeedbackDestroy", "sparclMaskDestroy"}
    assert len(calls) > 80
    missing = []
    for call in sorted(calls):
        owner, _, name = python_name(call).removesuffix("()").partition(".")
        holder = sparcl if owner == "sparcl" else getattr(sparcl, owner, None)
        if holder is None or name and not hasattr(holder, name):
            missing.append(f"{call}: {python_name(call)}")
    assert missing == []
    assert in_python("sparclStateDestroy: x (options.secret_path, max_age_s); end it by sparclCommShrink, or NULL") == (
        "State.close: x (secret, max_age); end it by Comm.shrink(), or None"
    )
    for path in ("/data/options.safetensors", "/runs/key_path/a", "/x/NULL/sparclTest/b", "options.mode.bin", "'NULL'"):
        assert in_python(f"sparclFileHash: {path}: cannot be opened") == f"sparcl.hash: {path}: cannot be opened"
