"""Collectives against NumPy, over rank counts; requests; errors that all ranks get."""

import asyncio

import numpy as np
import pytest

import sparcl
from conftest import run_ranks

COUNTS = [1, 2, 3, 5, 8]


def values_of(rank, count=1000, dtype=np.float64):
    return np.random.default_rng(rank).integers(-1000, 1000, count).astype(dtype)


@pytest.mark.parametrize("ranks", COUNTS)
def test_top_k(ranks):
    k = 20
    inputs = [values_of(rank) for rank in range(ranks)]
    chosen = [np.argsort(-np.abs(x), kind="stable")[:k] for x in inputs]
    selected = np.zeros(1000)
    for x, places in zip(inputs, chosen):
        selected[places] += x[places]
    union = np.unique(np.concatenate(chosen))
    of_union = np.zeros(1000)
    of_union[union] = sum(x[union] for x in inputs)

    def work(comm):
        x = inputs[comm.rank]
        feedback = sparcl.Feedback(1000, np.float64)
        got = comm.all_reduce_top_k(x, k, mode="selected", feedback=feedback)
        assert np.array_equal(got, selected)
        assert feedback.stats.selected == k
        assert np.array_equal(np.delete(feedback.residual, chosen[comm.rank]), np.delete(x, chosen[comm.rank]))
        assert np.array_equal(comm.all_reduce_top_k(x, k), of_union)
        mean = comm.all_reduce_top_k(x, k, op="avg", mode="selected")
        assert np.allclose(mean, selected / ranks)
        report = comm.last_report
        assert report.seconds > 0 and report.wire in ("float64", None)
        return got.tobytes()

    assert len(set(run_ranks(ranks, work))) == 1


@pytest.mark.parametrize("ranks", COUNTS)
def test_masked_and_sparse(ranks):
    def work(comm):
        x = values_of(comm.rank)
        total = sum(values_of(rank) for rank in range(ranks))
        mask = sparcl.Mask.random(1000, 0.1, seed=7)
        places = mask.indices()
        assert len(mask) == len(places) == 100
        out = comm.all_reduce_masked(x, mask)
        assert np.array_equal(out[places], total[places]) and np.count_nonzero(out) <= 100
        kept = x.copy()
        assert comm.all_reduce_masked(kept, mask, out=kept) is kept
        assert np.array_equal(np.delete(kept, places), np.delete(x, places))
        mask.set_step(1)
        assert not np.array_equal(mask.indices(), places)

        own = np.arange(comm.rank, 1000, 7)
        values, indices = comm.all_reduce_sparse(x[own], own, 1000)
        want = np.zeros(1000)
        for rank in range(ranks):
            at = np.arange(rank, 1000, 7)
            want[at] += values_of(rank)[at]
        dense = np.zeros(1000)
        dense[indices] = values
        assert np.array_equal(dense, want)
        # Too small at the first try: all ranks call again.
        again = comm.all_reduce_sparse(x[own], own, 1000, capacity=1)
        assert np.array_equal(again[1], indices) and np.array_equal(again[0], values)

    run_ranks(ranks, work)


@pytest.mark.parametrize("ranks", COUNTS)
def test_broadcasts(ranks):
    root = ranks - 1
    base = values_of(99, dtype=np.float32)
    new = base.copy()
    new[::50] += 1

    def work(comm):
        weights = new.copy() if comm.rank == root else base.copy()
        got = comm.broadcast_delta(weights, base if comm.rank == root else None, root=root)
        assert got is weights and np.array_equal(weights, new)
        state = sparcl.State({"w": weights, "b": np.full(10, comm.rank, np.int64)})
        assert comm.broadcast_update(state, 1, root=root) == 1
        assert state.version == 1 and state["b"][0] == root
        if comm.rank == root:
            weights[3] = 77
            state.mark_indices("w", np.array([3]))
        assert comm.broadcast_update(state, 2 if comm.rank == root else 0, root=root) == 2
        assert weights[3] == 77
        values = indices = None
        if comm.rank == root:
            values, indices = np.array([1.5, 2.5], np.float32), np.array([7, 1 << 40], np.uint64)
        values, indices = comm.broadcast_sparse(values, indices, root=root, capacity=1)
        assert values.tolist() == [1.5, 2.5] and indices.tolist() == [7, 1 << 40]
        return state.hash()

    assert len(set(run_ranks(ranks, work))) == 1


def test_requests():
    def work(comm):
        x = [values_of(10 * comm.rank + i) for i in range(3)]
        want = [sum(values_of(10 * rank + i) for rank in range(3)) for i in range(3)]
        calls = [comm.i_all_reduce_top_k(each, 1000) for each in x]
        for call, total in zip(calls, want):
            assert np.array_equal(call.wait(), total)
        assert calls[0].test() and calls[0].wait() is calls[0].wait()

        async def all_of_them():
            first = comm.i_all_reduce_top_k(x[0], 1000)
            mask = sparcl.Mask(np.array([1, 5]), 1000)
            second = comm.i_all_reduce_masked(x[1], mask)
            third = comm.i_all_reduce_sparse(x[2], np.arange(1000), 1000)
            return [await first, await second, await third]

        first, second, (values, _) = asyncio.run(all_of_them())
        assert np.array_equal(first, want[0]) and np.array_equal(values, want[2])
        assert second[1] == want[1][1] and second[2] == 0
        weights = want[0].copy() if comm.rank == 0 else np.zeros(1000)
        assert np.array_equal(comm.i_broadcast_delta(weights).wait(), want[0])
        # One that nobody waits for is kept until it is over.
        comm.i_all_reduce_top_k(np.ones(1000), 1000)
        comm.i_all_reduce_top_k(np.ones(1000), 1000).wait()

    run_ranks(3, work)


def test_errors_are_agreed():
    def work(comm):
        x, out = np.ones(10), np.full(10, 7.0)
        with pytest.raises(sparcl.MismatchError) as error:
            comm.all_reduce_top_k(x, 1 + comm.rank, out=out)
        assert error.value.code == 17 and (out == 7).all()
        if comm.rank == 0:
            with pytest.raises(sparcl.InvalidArgumentError, match="no data today"):
                comm.refuse("no data today")
        else:
            with pytest.raises(sparcl.InvalidArgumentError, match="no data today"):
                comm.all_reduce_top_k(x, 1)
        assert comm.error is None and comm.failed_rank is None
        assert comm.all_reduce_top_k(x, 10).sum() == 30

    run_ranks(3, work)


def test_abort_ends_the_others():
    def work(comm):
        if comm.rank == 0:
            comm.abort()
            return
        with pytest.raises(sparcl.RemoteError):
            comm.all_reduce_top_k(np.ones(10), 1)
        assert comm.error is sparcl.RemoteError and comm.failed_rank == 0

    run_ranks(2, work)


def test_feedback_is_saved_and_loaded(alone, tmp_path):
    feedback = sparcl.Feedback(100)
    x = values_of(1, 100, np.float32)
    alone.all_reduce_top_k(x, 10, feedback=feedback)
    feedback.save(tmp_path / "residual")
    again = sparcl.Feedback.load(tmp_path / "residual")
    assert np.array_equal(again.residual, feedback.residual) and again.residual.any()
    again.reset()
    assert not again.residual.any()


def test_ranks_of_processes(tmp_path):
    """Three processes meet by an id."""
    from conftest import run_python
    import concurrent.futures

    program = """if True:
        import sys, time, os, numpy as np, sparcl
        path, rank = sys.argv[1], int(sys.argv[2])
        if rank == 0:
            with open(path + ".new", "wb") as file: file.write(sparcl.unique_id())
            os.rename(path + ".new", path)
        while not os.path.exists(path): time.sleep(0.01)
        comm = sparcl.Comm.from_id(open(path, "rb").read(), 3, rank, timeout=50)
        x = np.zeros(10, np.float32); x[rank] = 1
        print(comm.all_reduce_top_k(x, 1).tolist()[:4])
        comm.close()
    """
    path = str(tmp_path / "id")
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        runs = list(threads.map(lambda rank: run_python(program, path, str(rank)), range(3)))
    for run in runs:
        assert run.stdout == "[1.0, 1.0, 1.0, 0.0]\n", run.stderr
