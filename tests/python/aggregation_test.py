"""Aggregators: rounds of a communicator, and workers that come and go."""

import threading

import numpy as np
import pytest
from conftest import run_ranks

import sparcl


def test_a_round_gives_the_weighted_mean_of_sparse_updates():
    def work(comm):
        values = np.array([1, 2], np.float32) * (comm.rank + 1)
        indices = np.array([5, comm.rank], np.int64)
        return comm.aggregate(values, indices, 10, weight=comm.rank + 1)

    for values, indices in run_ranks(3, work):
        assert indices.tolist() == [0, 1, 2, 5]
        np.testing.assert_allclose(values, [2 / 6, 8 / 6, 18 / 6, (1 + 4 + 9) / 6], rtol=1e-6)


def test_results_that_do_not_fit_are_asked_for_again():
    def work(comm):
        indices = np.arange(4) + 4 * comm.rank
        values = np.ones(4, np.float32)
        return comm.aggregate(values, indices, 100, capacity=3)[1].tolist()

    assert run_ranks(2, work) == [list(range(8))] * 2


def test_an_aggregator_keeps_momentum_and_cuts_over_a_save(tmp_path):
    def work(comm):
        path = tmp_path / f"part.{comm.rank}"
        options = {"outer": "sgd", "momentum": 0.5, "learning_rate": 2.0, "keep": 3}
        aggregator = sparcl.Aggregator(8, **options)
        indices = np.arange(8)
        results = []
        for step in range(4):
            values = np.linspace(1, 2, 8, dtype=np.float32) * (comm.rank + step + 1)
            got, at = comm.aggregate(values, indices, 8, aggregator=aggregator)
            assert len(got) == 3
            results.append((got.tolist(), at.tolist()))
            if step == 1:
                aggregator.save(path)
        assert aggregator.stats.rounds == 4 and aggregator.stats.listed == 2
        again = sparcl.Aggregator.load(path)
        for step in (2, 3):
            values = np.linspace(1, 2, 8, dtype=np.float32) * (comm.rank + step + 1)
            got, at = comm.aggregate(values, indices, 8, aggregator=again)
            assert (got.tolist(), at.tolist()) == results[step]
        return results, aggregator.stats.residual_l2

    (first, part), (second, other) = run_ranks(2, work)
    assert first == second
    assert part + other > 0  # each rank keeps a share of the elements


def test_contributions_are_clipped_and_refused():
    def work(comm):
        aggregator = sparcl.Aggregator(4, clip_l2=1.0, non_finite="refuse")
        value = np.nan if comm.rank == 0 else 3.0
        values, _ = comm.aggregate(
            np.array([value], np.float32), np.array([1]), 4, aggregator=aggregator
        )
        stats = aggregator.stats
        assert values.tolist() == [1.0] and (stats.listed, stats.refused) == (2, 1)
        return stats.own_refused, stats.own_clipped

    assert run_ranks(3, work) == [(True, False), (False, True), (False, True)]


def test_wrong_options_are_named(alone):
    with pytest.raises(sparcl.InvalidArgumentError, match="outer is 'adamw'"):
        sparcl.Aggregator(4, outer="adamw")
    with pytest.raises(sparcl.InvalidArgumentError, match="indices has the type float32"):
        alone.aggregate(np.ones(1, np.float32), np.ones(1, np.float32), 4)
    closed = sparcl.Aggregator(4)
    closed.close()
    with pytest.raises(sparcl.InvalidUsageError, match="closed"):
        alone.aggregate(np.ones(1, np.float32), np.ones(1, np.int64), 4, aggregator=closed)


def test_workers_contribute_to_rounds_and_come_back():
    weights = {"w": np.zeros(6, np.float32)}
    with sparcl.Aggregator(6) as aggregator:
        state = aggregator.serve(weights, model_id="m", deadline=20)
        assert list(state) == ["w"] and aggregator.results_address != aggregator.address
        own = {"w": np.full(6, 9, np.float32)}
        with sparcl.Worker(own, aggregator.address, model_id="m") as worker:
            assert worker.next(20) == 1 and own["w"].tolist() == [0] * 6
            own["w"][2] = 4
            worker.contribute(weight=2)
            report = aggregator.next(20)
            assert (report.version, report.listed, report.changed, report.weight) == (2, 1, 1, 2)
            assert worker.next(20) == 2 and own["w"].tolist() == [0, 0, 4, 0, 0, 0]
            worker.flush(20)
            assert worker.stats.committed == 1 and worker.stats.entries == 1
        again = {"w": np.empty(6, np.float32)}
        with sparcl.Worker(again, aggregator.address, model_id="m") as worker:
            assert worker.next(20) == 2 and again["w"][2] == 4
            with pytest.raises(sparcl.TimeoutError):
                worker.next(0.2)
        with pytest.raises(sparcl.TimeoutError):
            aggregator.next(0.2)


def test_waits_let_other_threads_run():
    with sparcl.Aggregator(2) as aggregator:
        aggregator.serve({"w": np.zeros(2, np.float32)}, deadline=20)
        rounds = []
        thread = threading.Thread(target=lambda: rounds.append(aggregator.next(20)))
        thread.start()
        own = {"w": np.zeros(2, np.float32)}
        with sparcl.Worker(own, aggregator.address) as worker:
            worker.next(20)
            own["w"][0] = 1
            worker.contribute()
            assert worker.next(20) == 2
        thread.join(20)
        assert rounds[0].listed == 1
