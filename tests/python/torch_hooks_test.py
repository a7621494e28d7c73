"""Hooks on ranks that are threads: buckets as DistributedDataParallel gives them, without it."""

import io

import numpy as np
import pytest

import sparcl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from conftest import run_ranks  # noqa: E402

from sparcl.torch import MaskedHook, TopKHook, WarmUp  # noqa: E402
from sparcl.torch._waiting import Waiting  # noqa: E402

RANKS, SIZES = 3, (40, 25, 60)


class GradBucket:
    """The interface of torch.distributed.GradBucket."""

    def __init__(self, index, last, parameters, gradients):
        self._index, self._last, self._parameters = index, last, parameters
        self._buffer = torch.cat([each.flatten() for each in gradients])

    def index(self):
        return self._index

    def is_last(self):
        return self._last

    def parameters(self):
        return self._parameters

    def buffer(self):
        return self._buffer


class Model:
    """Parameters, and the steps of a hook with their gradients."""

    def __init__(self, hook):
        self.hook = hook
        self.parameters = [torch.zeros(size) for size in SIZES]

    def step(self, gradients, layout=((0, 1), (2,)), dtype=torch.float32):
        """The reduced gradients, in the order of the parameters."""
        futures = []
        for index, members in enumerate(layout):
            bucket = GradBucket(
                index, index == len(layout) - 1, [self.parameters[i] for i in members],
                [gradients[i].to(dtype) for i in members],
            )  # fmt: skip
            futures.append(type(self.hook).run(self.hook, bucket))
        reduced = [None] * len(SIZES)
        for members, future in zip(layout, futures):
            parts = future.wait().split([SIZES[i] for i in members])
            for i, part in zip(members, parts):
                reduced[i] = part.clone()
        return reduced


def gradients_of(rank, step):
    random = torch.Generator().manual_seed(1000 * step + rank)
    return [torch.randn(size, generator=random) for size in SIZES]


def train(hook, steps, **options):
    model = Model(hook)
    return [model.step(gradients_of(hook.comm.rank, step), **options) for step in steps]


def reference(steps, k, mode, momentum, restart):
    """Deep Gradient Compression of all ranks in NumPy: results of each step, and residuals."""
    count = sum(SIZES)
    velocity = np.zeros((RANKS, count), np.float32)
    residual = np.zeros((RANKS, count), np.float32)
    results = []
    for step in range(steps):
        gradients = np.stack([torch.cat(gradients_of(r, step)).numpy() for r in range(RANKS)])
        velocity = np.float32(momentum) * velocity + gradients
        residual = residual + velocity
        own = np.zeros((RANKS, count), bool)
        for rank in range(RANKS):
            own[rank, np.argsort(-np.abs(residual[rank]), kind="stable")[:k]] = True
        sent = np.broadcast_to(own.any(0), own.shape) if mode == "union" else own
        results.append(np.where(sent, residual, 0).sum(0) / RANKS)
        residual = np.where(sent, 0, residual)
        velocity = np.where(sent, np.float32(1 - restart) * velocity, velocity)
    return results, residual


@pytest.mark.parametrize("mode", ["union", "selected"])
@pytest.mark.parametrize("momentum, restart", [(None, 1.0), (0.9, 1.0), (0.9, 0.5), (0.9, 0.0)])
def test_steps_are_those_of_deep_gradient_compression(mode, momentum, restart):
    k, steps = 12, 5

    def work(comm):
        hook = TopKHook(comm, k / sum(SIZES), mode=mode, momentum=momentum, restart=restart)
        results = train(hook, range(steps), layout=((0, 1, 2),))
        kept = hook.state_dict()["waiting"]
        return results, torch.cat([kept[str(i)]["residual"] for i in range(len(SIZES))])

    wanted, residuals = reference(steps, k, mode, momentum or 0.0, restart)
    for rank, (results, residual) in enumerate(run_ranks(RANKS, work)):
        for result, want in zip(results, wanted):
            np.testing.assert_allclose(torch.cat(result), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(residual, residuals[rank], rtol=1e-5, atol=1e-6)


def test_momentum_restarts_at_sent_elements_with_a_lossy_wire():
    def work(comm):
        hook = TopKHook(comm, 0.1, mode="selected", wire="int8", momentum=0.5)
        train(hook, range(1))
        kept = hook.state_dict()["waiting"]
        gradients = gradients_of(comm.rank, 0)
        restarted = kept_l2 = 0
        for i, gradient in enumerate(gradients):
            moved = kept[str(i)]["momentum"] == 0
            restarted += int(moved.sum())
            # Elsewhere the residual is the whole gradient; at sent elements the rounding error.
            assert torch.equal(kept[str(i)]["residual"][~moved], gradient[~moved])
            kept_l2 += float(kept[str(i)]["residual"][moved].abs().sum())
        assert restarted == sum(max(1, round(0.1 * n)) for n in (65, 60))
        assert kept_l2 > 0

    run_ranks(RANKS, work)


def test_residuals_follow_their_parameters_into_rebuilt_buckets():
    waiting = Waiting(True, 0.9, 1.0)
    first = waiting.bucket(0, (("a", 3), ("b", 2)))
    second = waiting.bucket(1, (("c", 4),))
    comm = sparcl.Comm.local(1)[0]
    for bucket, start in ((first, 1), (second, 6)):
        value = torch.arange(start, start + bucket.count, dtype=torch.float32)
        comm.all_reduce_top_k(bucket.input_of(value), 0, feedback=bucket.feedback)
    before = waiting.save()
    moved = waiting.bucket(0, (("c", 4), ("a", 3)))
    assert torch.from_numpy(moved.feedback.residual).tolist() == [6, 7, 8, 9, 1, 2, 3]
    rest = waiting.bucket(1, (("b", 2),))
    assert torch.from_numpy(rest.feedback.residual).tolist() == [4, 5]
    after = waiting.save()
    assert before.keys() == after.keys()
    for name, parts in before.items():
        for kind, part in parts.items():
            assert torch.equal(part, after[name][kind]), (name, kind)


def test_steps_with_rebuilt_buckets_lose_nothing():
    def work(comm):
        hook = TopKHook(comm, 0.05)
        model = Model(hook)
        layouts = [((0, 1), (2,)), ((2, 0), (1,)), ((1,), (2, 0))]
        total = [torch.zeros(size) for size in SIZES]
        for step, layout in enumerate(layouts):
            for i, part in enumerate(model.step(gradients_of(comm.rank, step), layout)):
                total[i] += part
        kept = hook.state_dict()["waiting"]  # by the order in which parameters came: 0, 1, 2
        return total, [kept[str(i)]["residual"] for i in range(len(SIZES))]

    ranks = run_ranks(RANKS, work)
    for i in range(len(SIZES)):
        given = sum(gradients_of(r, step)[i] for r in range(RANKS) for step in range(3))
        waits = sum(kept[i] for _, kept in ranks)
        torch.testing.assert_close(ranks[0][0][i] * RANKS + waits, given, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [TopKHook, MaskedHook])
def test_a_saved_state_goes_on_with_the_same_bits(make):
    def work(comm):
        options = {"momentum": 0.9, "warmup": WarmUp(4, 0.5)}
        whole = train(make(comm, 0.1, **options), range(6))
        first = make(comm, 0.1, **options)
        train(first, range(3))
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second = make(comm, 0.1, **options)
        second.load_state_dict(torch.load(file))
        assert second.step == 3
        assert second.residual_l2() == first.residual_l2() > 0
        for mine, want in zip(train(second, range(3, 6)), whole[3:]):
            assert all(torch.equal(a, b) for a, b in zip(mine, want))

    run_ranks(RANKS, work)


def test_states_of_other_ranks_and_models_are_refused(alone):
    hook = TopKHook(alone, 0.1)
    train(hook, range(1))
    state = hook.state_dict()
    with pytest.raises(sparcl.InvalidArgumentError, match="rank 2 of 4.*strict=False"):
        hook.load_state_dict({**state, "rank": 2, "size": 4})
    hook.load_state_dict({**state, "rank": 2, "size": 4}, strict=False)
    state["waiting"]["0"]["residual"] = torch.zeros(7)
    fresh = TopKHook(alone, 0.1)
    fresh.load_state_dict(state)
    with pytest.raises(sparcl.InvalidArgumentError, match="'0' has 7 elements.*has 40"):
        train(fresh, range(1, 2))


@pytest.mark.parametrize("bad", [{"ratio": 0}, {"ratio": 1.5}, {"momentum": 1.0}, {"restart": 2.0},
                                 {"clip": 0.0},                                 {"mode": "all"}, {"wire": "int1"}])  # fmt: skip
def test_wrong_options_are_named(alone, bad):
    with pytest.raises(sparcl.InvalidArgumentError, match=next(iter(bad))):
        TopKHook(alone, **bad)


def test_masked_hook_sends_the_same_elements_of_all_ranks_and_keeps_the_rest():
    def work(comm):
        hook = MaskedHook(comm, 0.2, seed=5)
        results = train(hook, range(2))
        kept = hook.state_dict()["waiting"]
        return results, [kept[str(i)]["residual"] for i in range(len(SIZES))], hook.stats

    ranks = run_ranks(RANKS, work)
    first, second = (torch.cat(step) != 0 for step in ranks[0][0])
    assert first.sum() == second.sum() == 13 + 12 and not torch.equal(first, second)
    given = torch.cat([sum(gradients_of(r, 0)[i] for r in range(RANKS)) for i in range(3)])
    torch.testing.assert_close(torch.cat(ranks[0][0][0])[first] * RANKS, given[first])
    for results, residual, stats in ranks:
        assert all(torch.equal(a, b) for a, b in zip(results[1], ranks[0][0][1]))
        assert (torch.cat(residual)[second] == 0).all()
        assert stats.steps == 2 and stats.selected == 2 * 25 and stats.elements == 2 * sum(SIZES)


def test_gradients_of_16_bits_keep_a_residual_of_32():
    def work(comm):
        hook = TopKHook(comm, 0.1)
        (reduced,) = train(hook, range(1), dtype=torch.bfloat16)
        assert all(part.dtype == torch.bfloat16 for part in reduced)
        residual = hook.state_dict()["waiting"]["0"]["residual"]
        assert residual.dtype == torch.float32
        given = gradients_of(comm.rank, 0)[0].bfloat16().float()
        assert torch.equal(residual[residual != 0], given[residual != 0])

    run_ranks(RANKS, work)


def test_stats_count_bytes_beside_those_of_a_dense_ring(alone):
    def work(comm):
        hook = TopKHook(comm, 0.02)
        train(hook, range(3))
        return hook.stats

    stats = run_ranks(2, work)
    assert stats[0].dense_bytes == 3 * sum(SIZES) * 4
    assert 0 < stats[0].bytes_sent == stats[1].bytes_received
    assert stats[0].selected == 3 * 2 and stats[0].ratio == 0.02
    assert stats[0].sent_fraction == stats[0].bytes_sent / stats[0].dense_bytes
    hook = TopKHook(alone, 0.02)
    train(hook, range(1))
    assert hook.stats.sent_fraction == 0 and hook.stats.steps == 1
    hook.stats.reset()
    assert hook.stats.steps == 0


def test_clip_scales_the_gradients_of_a_bucket_down():
    def work(comm):
        (reduced,) = train(TopKHook(comm, 1.0, clip=0.6, feedback=False), range(1))
        return torch.cat(reduced)

    own = [[torch.cat(gradients_of(r, 0)[:2]), gradients_of(r, 0)[2]] for r in range(4)]
    bound = 0.6 / 2  # sqrt(4 ranks)
    want = torch.cat(
        [sum(own[r][b] * bound / own[r][b].norm() for r in range(4)) / 4 for b in (0, 1)]
    )
    for result in run_ranks(4, work):
        torch.testing.assert_close(result, want)


def test_warm_up_falls_by_equal_factors():
    each = WarmUp(4, 0.16)
    assert [each.ratio(step, 0.01) for step in range(6)] == pytest.approx(
        [0.16, 0.08, 0.04, 0.02, 0.01, 0.01]
    )
    staged = WarmUp(4, 0.16, stages=2)
    assert [staged.ratio(s, 0.01) for s in range(5)] == pytest.approx(
        [0.16, 0.16, 0.04, 0.04, 0.01]
    )
    assert WarmUp(0).ratio(0, 0.01) == WarmUp(10, 0.01).ratio(3, 0.02) * 0.5 == 0.01
    with pytest.raises(sparcl.InvalidArgumentError, match="start"):
        WarmUp(4, 0.0)


def test_all_buckets_of_a_step_end_before_their_errors_are_raised():
    def work(comm):
        hook = TopKHook(comm, 0.1)
        (before,) = train(hook, range(1))
        model = Model(hook)
        if comm.rank == 1:
            for _ in range(2):  # buckets
                with pytest.raises(sparcl.InvalidArgumentError, match="loss is NaN"):
                    comm.refuse("the loss is NaN")
        else:
            with pytest.raises(sparcl.InvalidArgumentError, match="loss is NaN"):
                model.step(gradients_of(comm.rank, 1))
        return model.step(gradients_of(comm.rank, 2)), hook.step

    (first, step), (second, _) = run_ranks(2, work)
    assert step == 2 and all(torch.equal(a, b) for a, b in zip(first, second))


def test_what_is_no_communicator_and_no_model_is_named(alone):
    for comm in (None, "gloo"):
        with pytest.raises(TypeError, match="pass a sparcl.Comm"):
            TopKHook(comm, ratio=0.1)
    with pytest.raises(TypeError, match="ratio is '1%': it is a number"):
        TopKHook(alone, ratio="1%")
    hook = TopKHook(alone, ratio=0.1)
    with pytest.raises(TypeError, match="model is a Linear: pass a torch DistributedDataParallel"):
        hook.register(torch.nn.Linear(2, 2))
    with pytest.raises(sparcl.InvalidArgumentError, match="lacks rank, size, step, waiting"):
        hook.load_state_dict({"a": 1})
