"""Publishers, subscribers, stores and state_dicts."""

import asyncio
import threading
import time

import numpy as np
import pytest

import sparcl


def model(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {f"layer{i}.weight": rng.normal(size=(50, 40)).astype(dtype) for i in range(4)}


def zeros_like(tensors):
    return {name: np.zeros_like(each) for name, each in tensors.items()}


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_versions_arrive_whole():
    trained, served = model(1), zeros_like(model(1))
    with sparcl.Publisher(trained, model_id="policy") as publisher:
        with sparcl.Subscriber(served, publisher.address, model_id="policy") as subscriber:
            assert subscriber.version == 0
            for version in (1, 5, 6):
                trained["layer1.weight"][version] += 1
                assert publisher.publish(version) == version
                assert subscriber.next(10) == version == subscriber.version
                assert same(trained, served)
            publisher.wait(6, timeout=10)
            assert publisher.count(6) == (1, 1)
            assert publisher.publish() == 7
            assert subscriber.prepare(10) == 7 and subscriber.newest == 7
            assert subscriber.version == 6
            subscriber.commit(7)
            assert subscriber.version == 7
            assert publisher.last_report.bytes_dense == 4 * 2000 * 4
            view = subscriber.tensor("layer1.weight")
            assert np.array_equal(view, trained["layer1.weight"]) and not view.flags.writeable
            begin = time.monotonic()
            with pytest.raises(sparcl.TimeoutError, match="within 0.25 s"):
                subscriber.next(timeout=0.25)
            assert 0.2 < time.monotonic() - begin < 5
    assert publisher.closed and subscriber.closed


def test_a_publisher_that_is_not_there_is_named():
    with sparcl.Subscriber({"w": np.zeros(3)}, "127.0.0.1:1") as subscriber:
        with pytest.raises(sparcl.RemoteError, match="127.0.0.1:1"):
            subscriber.next(timeout=0.3)


def test_asynchronous_producer_and_consumer():
    trained, served = model(2), zeros_like(model(2))

    async def produce(publisher):
        for version in range(1, 6):
            trained["layer0.weight"][version] += 1
            await publisher.publish_async(version)
            await publisher.wait_async(version, timeout=20)

    async def consume(subscriber):
        seen = []
        async for version in subscriber:
            seen.append(version)
            if version == 5:
                return seen

    async def both():
        with sparcl.Publisher(trained) as publisher:
            with sparcl.Subscriber(served, publisher.address) as subscriber:
                _, seen = await asyncio.gather(produce(publisher), consume(subscriber))
                with pytest.raises(sparcl.TimeoutError):
                    await subscriber.next_async(timeout=0.05)
                waiting = asyncio.create_task(subscriber.next_async())
                await asyncio.sleep(0.05)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
        return seen

    assert asyncio.run(both()) == [1, 2, 3, 4, 5]
    assert same(trained, served)


def test_a_group_changes_together():
    trained = model(3)
    publisher = sparcl.Publisher(trained)
    publisher.publish()
    comms = sparcl.Comm.local(2)
    copies = [zeros_like(trained) for _ in comms]
    versions = [0, 0]

    def work(rank):
        with sparcl.Subscriber(copies[rank], publisher.address) as subscriber:
            versions[rank] = subscriber.next_group(comms[rank], timeout=20)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    publisher.close()
    assert versions == [1, 1] and all(same(trained, copy) for copy in copies)


def test_a_store(tmp_path):
    trained, served = model(4), zeros_like(model(4))
    with sparcl.Store(f"file:{tmp_path}/store") as store:
        assert store.latest() == 0
        with pytest.raises(sparcl.InvalidArgumentError, match="empty"):
            store.restore(served)
        for version in (1, 2, 3):
            trained["layer2.weight"][version] = version
            assert store.publish(trained) == version
        reader = sparcl.Store(f"file:{tmp_path}/store")
        assert reader.restore(served, 2) == 2 and not same(trained, served)
        assert reader.restore(served) == 3 and same(trained, served)
        part = {"layer2.weight": np.zeros((50, 40), np.float32)}
        assert sparcl.Store(f"file:{tmp_path}/store").restore(part) == 3
        assert np.array_equal(part["layer2.weight"], trained["layer2.weight"])
        assert [each.version for each in store.list()] == [1, 2, 3] and store.verify() == []
        assert store.copy(sparcl.Store(f"file:{tmp_path}/copy")) == 3
        for each in (tmp_path / "store" / "deltas").iterdir():
            each.write_bytes(b"damaged")
        with pytest.raises(sparcl.CorruptError, match="deltas"):
            store.verify()
        assert len(store.verify(sparcl.Store(f"file:{tmp_path}/copy"))) == 2
        assert store.prune(versions=1).waiting >= 0 and store.compact() >= 0


def test_a_publisher_with_a_store(tmp_path):
    trained, served = model(5), zeros_like(model(5))
    store = sparcl.Store(f"file:{tmp_path}/store")
    with sparcl.Publisher(trained, store=store) as publisher:
        publisher.publish()
        publisher.wait_stored(1, timeout=20)
        options = {"store": sparcl.Store(f"file:{tmp_path}/store"), "from_store": True}
        with sparcl.Subscriber(served, publisher.address, **options) as subscriber:
            assert subscriber.next(20) == 1
    assert same(trained, served)
    with sparcl.Publisher(trained, store=store) as again:
        assert again.publish() == 2


def test_masters_are_rounded_on_the_way():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    master = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    served = np.zeros(1000, ml_dtypes.bfloat16)
    state = sparcl.State(writeable=False)
    state.add_master("w", master, "bfloat16")
    with sparcl.Publisher(state) as publisher:
        with sparcl.Subscriber({"w": served}, publisher.address) as subscriber:
            publisher.publish()
            subscriber.next(10)
    assert np.array_equal(served, master.astype(ml_dtypes.bfloat16))


def test_files(tmp_path):
    base, target = model(6), model(6)
    target["layer3.weight"][7] += 1
    seen = []
    report = sparcl.diff(base, target, tmp_path / "d", on_progress=lambda done, all: seen.append(done))
    assert report.changed == 40 and report.elements == 8000 and seen
    assert sparcl.verify(tmp_path / "d").is_delta
    assert sparcl.hash(target) == report.target_hash != sparcl.hash(base) == report.base_hash
    assert len(sparcl.hash(base, "sha256")) == 64
    third = {name: each + 1 for name, each in target.items()}
    sparcl.diff(target, third, tmp_path / "e")
    both = sparcl.compose([tmp_path / "d", tmp_path / "e"], tmp_path / "both")
    assert both.base_hash == sparcl.hash(base)
    sparcl.apply(base, tmp_path / "both")
    assert same(base, third)
    with pytest.raises(sparcl.WrongBaseError):
        sparcl.apply(base, tmp_path / "d")
    assert same(base, third)
    advice = sparcl.advise(target, third)
    assert advice.changed == 8000 and advice.modes[0][0] == "auto"

    class Enough(Exception):
        pass

    def stop(done, all):
        raise Enough("no more")

    with pytest.raises(Enough, match="no more"):
        sparcl.diff(model(1), model(2), tmp_path / "stopped", on_progress=stop)
    assert not (tmp_path / "stopped").exists()


class TestStateDict:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="needs torch")

    def test_a_model_of_every_kind_of_tensor(self):
        torch = self.torch

        def make(seed):
            torch.manual_seed(seed)
            net = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.BatchNorm1d(8))
            net.add_module("head", torch.nn.Linear(8, 50, bias=False))
            net.head.weight = net[0].weight  # tied
            net.register_buffer("small", torch.randn(10).half())
            net.register_buffer("table", torch.arange(9).view(3, 3))
            net.register_buffer("flags", torch.tensor([True, False]))
            net.register_buffer("none", torch.empty(0, 4))
            return net

        trained, served = make(1), make(2)
        with sparcl.Publisher.from_state_dict(trained.state_dict()) as publisher:
            assert publisher.state.aliases == {"head.weight": "0.weight"}
            with sparcl.Subscriber.into(served, publisher.address) as subscriber:
                publisher.publish()
                assert subscriber.next(10) == 1
                with torch.no_grad():
                    trained.head.weight[3] += 1
                    trained[1].num_batches_tracked += 5
                publisher.publish()
                assert subscriber.next(10) == 2
        for (name, one), other in zip(trained.state_dict().items(), served.state_dict().values()):
            assert torch.equal(one, other), name

    def test_masters(self):
        torch = self.torch
        master = torch.randn(100)
        served = torch.zeros(100, dtype=torch.bfloat16)
        names = {"w": torch.zeros(100, dtype=torch.bfloat16)}
        with sparcl.Publisher.from_state_dict(names, masters={"w": master}) as publisher:
            with sparcl.Subscriber({"w": served}, publisher.address) as subscriber:
                publisher.publish()
                subscriber.next(10)
        assert torch.equal(served, master.bfloat16())

    def test_what_is_no_tensor_is_left_out_by_name(self):
        torch = self.torch
        tensors = {"w": torch.ones(3), "step": 7, "_extra_state": None}
        state = sparcl.State.from_state_dict(tensors)
        assert list(state) == ["w"] and state.skipped == ("step", "_extra_state")
        with pytest.raises(sparcl.InvalidArgumentError, match="meta tensor"):
            sparcl.State.from_state_dict({"w": torch.empty(3, device="meta")})
        with pytest.raises(sparcl.InvalidArgumentError, match="masters"):
            sparcl.State.from_state_dict({"w": torch.ones(3)}, masters={"x": torch.ones(3)})

    def test_ten_thousand_small_tensors(self):
        torch = self.torch
        trained = {f"t{i}": torch.full((3,), float(i)) for i in range(10000)}
        served = {name: torch.zeros(3) for name in trained}
        with sparcl.Publisher.from_state_dict(trained) as publisher:
            with sparcl.Subscriber(served, publisher.address) as subscriber:
                publisher.publish()
                subscriber.next(20)
        assert all(served[f"t{i}"][2] == i for i in range(0, 10000, 97))


def test_a_cancelled_wait_loses_no_version():
    trained, served = model(1), zeros_like(model(1))
    with sparcl.Publisher(trained) as publisher:
        with sparcl.Subscriber(served, publisher.address) as subscriber:
            publisher.publish(1)
            publisher.wait(1, acks=0, timeout=10)

            async def give_up():  # the loop ends while the thread waits
                waiting = asyncio.ensure_future(subscriber.next_async())
                await asyncio.sleep(0.05)
                waiting.cancel()

            assert subscriber.next(10) == 1
            asyncio.run(give_up())
            publisher.publish(2)
            assert subscriber.next(10) == 2

            async def in_pieces():
                for _ in range(2000):
                    try:
                        return await asyncio.wait_for(subscriber.next_async(), 0.004)
                    except asyncio.TimeoutError:
                        pass

            publisher.publish(3)
            assert asyncio.run(in_pieces()) == 3 == subscriber.version


def test_a_store_takes_a_state_dict_with_an_empty_tensor_again(tmp_path):
    store = sparcl.Store(f"file:{tmp_path}/s")
    weights = np.ones(5, np.float32)
    for version in (1, 2):
        weights[0] = version
        store.publish({"w": weights, "e": np.empty(0, np.float32)}, version)
    got = np.zeros(5, np.float32)
    for _ in range(2):
        assert store.restore({"w": got, "e": np.empty(0, np.float32)}) == 2
    assert got[0] == 2


@pytest.mark.parametrize("other", [np.array([1, 2, 3, 4], np.int32), np.ones((2, 2), np.float32)])
def test_a_delta_of_other_types_is_refused(tmp_path, other):
    base = {"w": np.ones(4, np.float32)}
    sparcl.diff(base, {"w": other}, tmp_path / "d")
    with pytest.raises(sparcl.Error, match="w"):
        sparcl.apply(base, tmp_path / "d")
    assert np.array_equal(base["w"], np.ones(4, np.float32))


def test_a_long_wait_is_a_warning(monkeypatch):
    monkeypatch.setenv("SPARCL_WAIT_WARNING_S", "0.3")
    with sparcl.Publisher({"w": np.ones(3)}) as publisher:
        with pytest.warns(RuntimeWarning, match="has waited for 0 s: .*0 of 1 replicas"):
            with pytest.raises(sparcl.TimeoutError):
                publisher.wait(1, timeout=0.6)


def test_what_a_program_says_while_it_is_waited_for_is_a_warning():
    with sparcl.Publisher({"w": np.ones(3, np.float32)}) as publisher:
        publisher.publish(1)
        with sparcl.Subscriber.into_checkpoint("/proc/x.safetensors", publisher.address) as kept:
            with pytest.warns(RuntimeWarning, match="x.safetensors: cannot be created"):
                with pytest.raises(sparcl.TimeoutError):
                    kept.next(2)


def test_a_store_refuses_other_arrays_of_the_same_names(tmp_path):
    store = sparcl.Store(f"file:{tmp_path}/s")
    store.publish({"w": np.ones(3, np.float32)}, 1)
    with pytest.raises(sparcl.InvalidUsageError, match="changed in place"):
        store.publish({"w": np.ones(3, np.float32)}, 2)
