"""Outer steps: DiLoCo and local SGD on ranks that are threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import sparcl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from conftest import run_ranks  # noqa: E402

from sparcl.torch import DiLoCo, ElasticDiLoCo, LocalSGD  # noqa: E402

RANKS = 3


def weights_of(rank):
    return [torch.full((4,), float(rank)), torch.full((2, 3), 10.0 * (rank + 1))]


def test_workers_begin_with_the_weights_of_rank_0():
    def work(comm):
        weights = weights_of(comm.rank)
        DiLoCo(weights, comm)
        assert weights[0].tolist() == [0] * 4 and weights[1].flatten().tolist() == [10] * 6

    run_ranks(RANKS, work)


def test_local_sgd_goes_on_from_the_weighted_mean():
    def work(comm):
        weights = weights_of(0)
        outer = LocalSGD(weights, comm, every=2)
        for part in weights:
            part += comm.rank
        assert not outer.step(weight=comm.rank + 1)
        assert outer.step(weight=comm.rank + 1)
        mean = (0 * 1 + 1 * 2 + 2 * 3) / 6
        torch.testing.assert_close(weights[0], torch.full((4,), mean))
        torch.testing.assert_close(weights[1], torch.full((2, 3), 10 + mean))
        return weights

    ranks = run_ranks(RANKS, work)
    assert all(torch.equal(a, b) for own in ranks for a, b in zip(own, ranks[0]))


def test_diloco_steps_with_nesterovs_momentum():
    def work(comm):
        weights = [torch.zeros(5)]
        outer = DiLoCo(weights, comm, every=1, learning_rate=0.5, momentum=0.8)
        momentum = want = 0.0
        for update in (1.0, -0.5, 2.0):
            weights[0] += update * (comm.rank + 1)  # the mean over 3 ranks: twice the update
            outer.step()
            momentum = 0.8 * momentum + 2 * update
            want += 0.5 * (2 * update + 0.8 * momentum)
            torch.testing.assert_close(weights[0], torch.full((5,), want))
        assert outer.stats.rounds == 3 and outer.stats.listed == RANKS
        assert outer.bytes_sent > 0

    run_ranks(RANKS, work)


def test_what_a_worker_does_not_send_is_in_its_next_update():
    def work(comm):
        weights = [torch.zeros(10)]
        outer = LocalSGD(weights, comm, every=1, ratio=0.1)
        weights[0][:3] += torch.tensor([3.0, 2.0, 1.0])
        outer.step()
        assert weights[0].tolist() == [3.0] + [0.0] * 9
        for want in (2.0, 1.0):
            outer.step()
        assert weights[0][:4].tolist() == [3.0, 2.0, 1.0, 0.0]

    run_ranks(2, work)


def test_weights_of_16_bits_follow_a_master_of_32():
    def work(comm):
        weights = [torch.ones(4, dtype=torch.bfloat16)]
        outer = LocalSGD(weights, comm, every=1)
        for _ in range(8):  # the mean of 2^-7 and 0 is half a step of bfloat16 above 1
            if comm.rank == 0:
                weights[0] += 2**-7
            outer.step()
        assert weights[0].float().tolist() == [1 + 8 * 2**-8] * 4

    run_ranks(2, work)


def test_a_saved_outer_state_goes_on_with_the_same_bits():
    def work(comm):
        def go_on(weights, outer, steps):
            for step in steps:
                weights[0] += torch.linspace(-1, 1, 50) * (comm.rank + step)
                outer.step()

        options = {"every": 2, "ratio": 0.3, "learning_rate": 0.7, "momentum": 0.9}
        whole = [torch.zeros(50)]
        go_on(whole, DiLoCo(whole, comm, **options), range(8))
        first = [torch.zeros(50)]
        outer = DiLoCo(first, comm, **options)
        go_on(first, outer, range(3))
        second = [torch.zeros(50)]
        again = DiLoCo(second, comm, **options)
        again.load_state_dict(outer.state_dict())
        second[0].copy_(first[0])
        go_on(second, again, range(3, 8))
        assert torch.equal(second[0], whole[0])
        with pytest.raises(sparcl.InvalidArgumentError, match="with 50 weights, this is rank"):
            DiLoCo([torch.zeros(3)], comm).load_state_dict(outer.state_dict())

    run_ranks(2, work)


def test_an_agreed_error_changes_nothing():
    def work(comm):
        weights = [torch.zeros(6)]
        outer = LocalSGD(weights, comm, every=1, ratio=0.5)
        weights[0] += torch.arange(6.0)
        with pytest.raises(sparcl.InvalidArgumentError, match="weight"):
            outer.exchange(weight=0)
        assert weights[0].tolist() == list(range(6))
        outer.exchange()
        outer.exchange()
        assert weights[0].tolist() == list(range(6))

    run_ranks(2, work)


def test_elastic_workers_make_the_steps_of_diloco_and_may_leave():
    def module_of(start):
        module = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.constant_(module.weight, start)
        return module

    options = {"outer": "nesterov", "learning_rate": 0.5, "momentum": 0.8}
    with sparcl.Aggregator(3, **options) as aggregator:
        root = module_of(1.0)
        aggregator.serve({"weight": root.weight.detach()}, deadline=20)
        modules = [module_of(7.0), module_of(8.0)]
        outers = [ElasticDiLoCo(each, aggregator.address, every=1, timeout=20) for each in modules]
        momentum, want = 0.0, 1.0
        for updates in ((1.0, 3.0), (2.0, 0.0), (4.0,)):
            assert all(torch.equal(m.weight, torch.full((1, 3), want)) for m in modules)
            with ThreadPoolExecutor(2) as threads:
                for module, outer, update in zip(modules, outers, updates):
                    with torch.no_grad():
                        module.weight += update
                    threads.submit(outer.step)
                assert aggregator.next(20).listed == len(updates)
            mean = sum(updates) / len(updates)
            momentum = 0.8 * momentum + mean
            want += 0.5 * (mean + 0.8 * momentum)
            torch.testing.assert_close(root.weight.detach(), torch.full((1, 3), want))
            want = root.weight[0, 0].item()
            if len(updates) == 2 and updates[1] == 0.0:
                outers.pop().close()  # the second worker leaves
                modules.pop()
        assert outers[0].version == 4
        outers[0].close()
