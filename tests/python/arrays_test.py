"""Arrays of all kinds go in and out without a copy, or are refused by name."""

import array
import ctypes

import numpy as np
import pytest

import sparcl

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 of NumPy comes with ml_dtypes")

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
TYPES = FLOATS + [
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8, np.int16, np.int32, np.int64,
    np.uint8, np.uint16, np.uint32, np.uint64, np.bool_,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_type_is_replicated(dtype):
    rng = np.random.default_rng(1)
    kind = np.dtype(dtype)
    high = 2 if kind == np.bool_ else 256
    raw = rng.integers(0, high, 1000 * kind.itemsize, dtype=np.uint8)
    trained = raw.view(kind)
    served = np.zeros(1000, kind)
    with sparcl.Publisher({"w": trained}) as publisher:
        with sparcl.Subscriber({"w": served}, publisher.address) as subscriber:
            assert publisher.publish() == 1
            assert subscriber.next(10) == 1
            assert served.tobytes() == trained.tobytes()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_results_have_the_type_of_the_input(alone, dtype):
    x = np.arange(10).astype(dtype)
    out = alone.all_reduce_top_k(x, 3)
    assert type(out) is np.ndarray and out.dtype == x.dtype
    assert [float(each) for each in out] == [0] * 7 + [7, 8, 9]


def test_inputs_that_are_not_contiguous_are_copied_by_stride(alone):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (x.T, x[:, ::2], x[::-1], x[:, 1:3], np.broadcast_to(x[0], (3, 6))):
        out = alone.all_reduce_top_k(view, view.size, out=np.empty(view.shape, np.float32))
        assert np.array_equal(out, view)
    bfloat = x.astype(ml_dtypes.bfloat16)
    out = alone.all_reduce_top_k(bfloat[:, ::2], 12, out=np.empty((4, 3), bfloat.dtype))
    assert np.array_equal(out.astype(np.float32), x[:, ::2])


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_outputs_that_are_not_contiguous_or_read_only_are_refused(alone, dtype):
    x = np.arange(12).astype(dtype)
    out = np.zeros(24, dtype)
    with pytest.raises(sparcl.InvalidArgumentError, match="out is not contiguous"):
        alone.all_reduce_top_k(x, 3, out=out[::2])
    out = np.zeros(12, dtype)
    out.flags.writeable = False
    with pytest.raises(sparcl.InvalidArgumentError, match="out is read-only"):
        alone.all_reduce_top_k(x, 3, out=out)
    assert not out.astype(np.float32).any()


def test_a_read_only_input_is_an_input(alone):
    x = np.arange(12, dtype=np.float32)
    x.flags.writeable = False
    assert alone.all_reduce_top_k(x, 12).sum() == 66
    with sparcl.Publisher({"w": x}) as publisher:
        assert publisher.publish() == 1


def test_odd_shapes(alone):
    scalar = np.array(3, np.float32)
    assert alone.all_reduce_top_k(scalar, 1) == 3
    empty = np.zeros((0, 5), np.float32)
    assert alone.all_reduce_top_k(empty, 0).shape == (0, 5)
    # Strides of dimensions of one element are any number.
    one = np.lib.stride_tricks.as_strided(np.arange(4, dtype=np.float32), (1, 4, 1), (999, 4, 777))
    assert alone.all_reduce_top_k(one, 4, out=np.empty((1, 4, 1), np.float32)).sum() == 6


def test_unaligned_arrays(alone):
    raw = bytearray(4 * 100 + 1)
    x = np.frombuffer(raw, np.uint8)[1:].view(np.float32)
    assert x.ctypes.data % 4 == 1
    x[:] = np.arange(100)
    assert alone.all_reduce_top_k(x, 100, out=x).sum() == 4950


def test_objects_with_a_buffer(alone):
    x = array.array("f", [1, 2, 3])
    assert alone.all_reduce_top_k(x, 3).tolist() == [1, 2, 3]
    y = (ctypes.c_double * 3)(1, 2, 3)
    assert alone.all_reduce_top_k(y, 3).tolist() == [1, 2, 3]
    state = sparcl.State({"bytes": bytearray(b"abc")})
    assert len(state.hash()) == 32


def test_no_copy_is_made(alone):
    """The result is in the memory that was given, which did not move, and no other was taken."""
    import tracemalloc

    x = np.ones(1 << 20, np.float32)
    out = np.empty_like(x)
    address = out.ctypes.data
    alone.all_reduce_top_k(x, 10, out=out)
    tracemalloc.start()
    got = alone.all_reduce_top_k(x, 10, out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got is out and out.ctypes.data == address
    assert peak < 65536


def test_memory_lives_as_long_as_it_is_used():
    state = sparcl.State({"w": np.arange(1000, dtype=np.float32)})
    before = state.hash()
    garbage = [np.zeros(1000, np.float32) for _ in range(100)]
    assert state.hash() == before
    del garbage
    buffer = bytearray(1000)
    state = sparcl.State({"w": buffer})
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    state.close()
    buffer.extend(b"more")


class TestTorch:
    torch = None

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="needs torch")

    def test_tensors_in_and_out(self, alone):
        torch = self.torch
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            x = torch.arange(10).to(dtype)
            out = alone.all_reduce_top_k(x, 3)
            assert isinstance(out, torch.Tensor) and out.dtype == dtype
            assert out.tolist() == [0] * 7 + [7, 8, 9]
        assert alone.all_reduce_top_k(x.view(2, 5).T, 10, out=torch.empty(5, 2, dtype=dtype)).sum() == 45

    def test_parameters_are_written_in_place(self):
        torch = self.torch
        trained = torch.nn.Linear(8, 4)
        served = torch.nn.Linear(8, 4)
        with sparcl.Publisher(trained.state_dict()) as publisher:
            with sparcl.Subscriber(dict(served.named_parameters()), publisher.address) as replica:
                publisher.publish()
                replica.next(10)
        assert torch.equal(trained.weight, served.weight) and torch.equal(trained.bias, served.bias)
        assert served.weight.requires_grad

    def test_what_has_no_plain_memory_is_refused(self, alone):
        torch = self.torch
        refused = {
            "meta": torch.empty(3, device="meta"),
            "sparse": torch.eye(3).to_sparse(),
            "negated": torch.complex(torch.ones(3), torch.ones(3)).conj().imag,
            "complex": torch.zeros(3, dtype=torch.complex64),
        }
        for word, tensor in refused.items():
            with pytest.raises(sparcl.InvalidArgumentError, match=word):
                alone.all_reduce_top_k(tensor, 1, out=torch.empty(3))


def test_other_frameworks_by_dlpack(alone):
    class OnlyDlpack:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **options):
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    inner = np.arange(12, dtype=np.float32)
    assert alone.all_reduce_top_k(OnlyDlpack(inner), 12, out=np.empty(12, np.float32)).sum() == 66
    alone.all_reduce_top_k(inner * 2, 12, out=OnlyDlpack(inner))
    assert inner.sum() == 132
    state = sparcl.State({"w": OnlyDlpack(inner)})
    assert len(state.hash()) == 32
