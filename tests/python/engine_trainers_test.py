"""Adapters of verl, torchft, SkyRL and SGLang, against stand-ins for them."""

import asyncio
import json
import logging
import os
import socket
import time
import types
from datetime import timedelta

import pytest

import sparcl
import sparcl.engines

torch = pytest.importorskip("torch", reason="needs torch")
import engine_stubs as stubs  # noqa: E402
from conftest import run_python  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _stubs():
    stubs.install_vllm()
    sparcl.engines.register_vllm()
    stubs.install_verl()
    stubs.install_torchft()
    stubs.install_skyrl()
    stubs.install_sglang()


@pytest.fixture
def two_ranks(monkeypatch):
    def ranks(module):
        monkeypatch.setattr(module, "Comm", stubs.Comms(2))
        return [types.SimpleNamespace(world_size=2, cpu_group=rank) for rank in range(2)]

    return ranks


class TestVerl:
    @pytest.fixture(autouse=True)
    def _engines(self):
        from sparcl.engines import verl

        new = stubs.CheckpointEngineRegistry.new
        self.module = verl
        self.trainers = [new("sparcl", bucket_size=1, is_master=rank == 0) for rank in range(2)]
        self.source = {name: each.float() for name, each in stubs.trained().items()}
        self.rounded = lambda: {name: each.bfloat16() for name, each in self.source.items()}
        yield
        for engine in self.trainers[:1]:
            engine._board.close()
            engine._staged.close()

    def workers(self, count, **options):
        new = stubs.CheckpointEngineRegistry.new
        servers = [stubs.Model(self.rounded()) for _ in range(count)]
        return [new("sparcl", bucket_size=1, **options) for _ in range(count)], servers

    def update(self, workers, servers):
        stubs.verl_update(self.trainers, workers, lambda: iter(self.source.items()), servers)

    def test_updates(self):
        workers, servers = self.workers(1, hand_over="changed")
        self.update(workers, servers)
        assert stubs.same(servers[0].weights, self.rounded())
        self.source["model.layers.1.k.weight"][2] += 1
        servers[0].loaded.clear()
        self.update(workers, servers)
        assert servers[0].loaded == [["model.layers.1.k.weight"]]
        assert stubs.same(servers[0].weights, self.rounded())

    def test_a_server_that_fails_gets_all_changes_again(self):
        workers, servers = self.workers(1, hand_over="changed")
        self.update(workers, servers)
        self.source["embed.weight"][2] += 1
        servers[0].fail_at = "embed.weight"
        with pytest.raises(ValueError, match="no room"):
            self.update(workers, servers)
        self.source["model.layers.1.k.weight"][2] += 1
        self.update(workers, servers)
        assert stubs.same(servers[0].weights, self.rounded())

    def test_no_worker_passes_on_what_another_does_not_have(self, monkeypatch):
        workers, servers = self.workers(2)
        comms = sparcl.Comm.local(2)
        stand_in = types.SimpleNamespace(from_torch=lambda group, timeout: comms.pop())
        monkeypatch.setattr(self.module, "Comm", stand_in)
        self.update(workers, servers)
        old = self.rounded()
        self.source["embed.weight"][2] += 1

        def no_memory(info, keep_old):
            raise MemoryError("no memory")

        monkeypatch.setattr(workers[0]._shadow, "_follow", no_memory)
        with pytest.raises((sparcl.InvalidArgumentError, MemoryError), match="no memory"):
            self.update(workers, servers)
        assert all(stubs.same(server.weights, old) for server in servers)

    def test_a_trainer_that_fails_is_named_at_once(self):
        workers, servers = self.workers(1, timeout=30)
        self.update(workers, servers)
        self.source.pop("embed.weight")
        with pytest.raises(sparcl.Error, match="no tensor 'embed.weight'"):
            self.update(workers, servers)


class TestTorchft:
    @pytest.fixture(autouse=True)
    def _transports(self):
        from sparcl.engines.torchft import SparclTransport

        self.transports = [SparclTransport(), SparclTransport()]
        yield
        for each in self.transports:
            each.shutdown()

    def state(self, step):
        torch.manual_seed(step)
        return {
            "user": {
                "model": {"w": torch.randn(5, 4), "b": torch.randn(3).bfloat16()},
                "none": torch.empty(0, 2),
                "optim": {
                    "state": {0: {"step": torch.tensor(float(step)), "exp_avg": torch.randn(5, 4)}},
                    "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "foreach": None}],
                },
            },
            "torchft": {"step": step, "batches_committed": step * 2},
        }

    def test_a_state_arrives_as_it_was(self):
        sender, receiver = self.transports
        for step in (3, 4, 8):
            state = self.state(step)
            sender.send_checkpoint([1], step, state, timedelta(seconds=10))
            state["user"]["model"]["w"].zero_()  # after disallow_checkpoint a step may change it
            sender.disallow_checkpoint()
            got = receiver.recv_checkpoint(0, sender.metadata(), step, timedelta(seconds=10))
            self.check(got, self.state(step))

    def check(self, got, wanted):
        assert type(got) is type(wanted)
        if isinstance(wanted, dict):
            assert list(got) == list(wanted)
            for key in wanted:
                self.check(got[key], wanted[key])
        elif isinstance(wanted, (list, tuple)):
            assert len(got) == len(wanted)
            for one, other in zip(got, wanted):
                self.check(one, other)
        elif isinstance(wanted, torch.Tensor):
            assert got.dtype == wanted.dtype and torch.equal(got, wanted)
        else:
            assert got == wanted

    def test_a_state_of_another_form(self):
        sender, receiver = self.transports
        limit = timedelta(seconds=10)
        states = ({"w": torch.ones(3)}, {"v": torch.ones(4, 2)}, {"epoch": 7})
        for step, state in enumerate(states):
            sender.send_checkpoint([1], step, state, limit)
            self.check(receiver.recv_checkpoint(0, sender.metadata(), step, limit), state)

    def test_what_cannot_be_sent_or_had(self):
        sender, receiver = self.transports
        with pytest.raises(sparcl.InvalidArgumentError, match="'optim'.* is a object"):
            sender.send_checkpoint([1], 1, {"optim": object()}, timedelta(seconds=10))
        sender.send_checkpoint([1], 1, {"w": torch.ones(3)}, timedelta(seconds=10))
        with pytest.raises(sparcl.TimeoutError, match="step 2 from rank 0"):
            receiver.recv_checkpoint(0, sender.metadata(), 2, timedelta(seconds=0.4))
        with pytest.raises(sparcl.RemoteError, match="127.0.0.1:1"):
            receiver.recv_checkpoint(0, "127.0.0.1:1", 1, timedelta(seconds=0.4))

    def test_a_damaged_note_is_refused(self):
        import numpy as np

        from sparcl.engines import _board

        held = np.zeros(_board.CAPACITY, np.uint8)
        for size in ([255] * 8, [9, 0, 0, 0, 0, 0, 0, 0]):
            held[:8] = size
            with pytest.raises(sparcl.CorruptError, match="a note"):
                _board._parse(held)


class TestSkyrl:
    def test_an_update(self):
        from skyrl.backends.skyrl_train import inference_servers, weight_sync

        from sparcl.engines import skyrl

        for _ in range(2):
            skyrl.install(worker={"timeout": 20, "hand_over": "changed"})
        assert weight_sync.get_transfer_strategy("sparcl", False) == "sparcl"
        assert inference_servers.utils.get_transfer_strategy("sparcl", False) == "sparcl"
        assert weight_sync.get_transfer_strategy("nccl", False) == "nccl"
        assert weight_sync.get_transfer_strategy_cls("nccl", False) is object
        strategy = weight_sync.get_transfer_strategy_cls("sparcl", False)
        assert strategy.get_vllm_transfer_engine().__name__ == "SparclWeightTransferEngine"
        config = types.SimpleNamespace(run_engines_locally=True)
        info = strategy.create_init_info(config, 1, "model")
        assert not info.override_existing_receiver
        source = stubs.trained()
        worker = stubs.Worker(source)
        client = stubs.SkyrlClient(stubs.Client([worker]))
        sender = strategy.create_sender(info, client)

        def chunks():
            for name, each in source.items():
                yield types.SimpleNamespace(names=[name], tensors=[each])

        asyncio.run(client.init_weight_update_communicator(info))
        for version in (1, 2):
            source["embed.weight"][version] += 1
            asyncio.run(sender.send_chunks(chunks(), weight_metadata=None, reset_prefix_cache=True))
            assert worker.engine.version == version and stubs.same(worker.model.weights, source)
        assert worker.model.loaded[1] == ["embed.weight"]
        old = {name: each.clone() for name, each in source.items()}
        source["embed.weight"][5] += 1
        worker.model.fail_at = "embed.weight"
        with pytest.raises(sparcl.Error, match="did not load version 3"):
            asyncio.run(sender.send_chunks(chunks()))
        assert stubs.same(worker.model.weights, old) and not worker.active
        sender.teardown()
        worker.engine.shutdown()


class TestSglang:
    @pytest.mark.parametrize("hand_over", ["changed", "layers"])
    def test_updates_of_two_ranks(self, two_ranks, hand_over, caplog):
        from sparcl.engines import sglang

        source = stubs.trained()
        models = [stubs.Model(source), stubs.Model(source)]
        engine = stubs.SglangEngine(models, two_ranks(sglang))
        trainer = sglang.Trainer(ranks=2, timeout=20, hand_over=hand_over)
        assert trainer.update(engine, source.items()) == 1
        source["model.layers.1.k.weight"][2] += 1
        assert trainer.update(engine, source.items()) == 2 and engine.flushes == 2
        assert all(stubs.same(model.weights, source) for model in models)
        assert len(models[0].loaded[-1]) == (1 if hand_over == "changed" else 3)
        old = {name: each.clone() for name, each in source.items()}
        source["model.layers.1.k.weight"][2] += 1
        models[1].fail_at = "model.layers.1.k.weight"
        with caplog.at_level(logging.ERROR):
            with pytest.raises(sparcl.TimeoutError, match="version 3 on all of its 2 ranks"):
                trainer.update(engine, source.items(), patience=0.5)
        assert "no room for model.layers.1.k.weight" in caplog.text
        assert all(stubs.same(model.weights, old) for model in models)
        assert trainer.update(engine, source.items()) == 4
        assert all(stubs.same(model.weights, source) for model in models)
        trainer.close()
        for model in models:
            sglang._ranks.pop(model).close()


def checkpoint(folder, value):
    from sparcl import _safetensors

    os.makedirs(folder)
    _safetensors.save({"w": torch.full((300,), float(value))}, f"{folder}/model.safetensors")
    with open(f"{folder}/config.json", "w") as file:
        json.dump({"value": value}, file)


def holds(folder, value):
    from sparcl import _safetensors

    got = torch.zeros(300)
    _safetensors.load_into(f"{folder}/model.safetensors", {"w": got})
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    return config == {"value": value} and torch.equal(got, torch.full((300,), float(value)))


def test_slime_publishes_what_sglang_fetches(tmp_path, monkeypatch):
    from sparcl.engines import sglang_pull, slime

    monkeypatch.setenv("SPARCL_ENGINES_TIMEOUT", "20")
    sync, host = tmp_path / "sync", tmp_path / "host"
    checkpoint(tmp_path / "base", 0)
    sync.mkdir()
    args = types.SimpleNamespace(hf_checkpoint=str(tmp_path / "base"))
    with pytest.raises(sparcl.InvalidUsageError, match="no address"):
        slime.address()
    try:
        assert slime.publish(args, str(sync), []) == 0
        monkeypatch.setenv("SPARCL_ENGINES_SOURCE", slime.address())
        for step in (1, 2):
            checkpoint(sync / f"weight_v{step:06d}", step)
            assert slime.publish(args, str(sync / f"weight_v{step:06d}"), []) == step + 1
            for _ in range(2):  # each rank of a host calls the hook
                sglang_pull.fetch(str(host), step)
            assert holds(host / f"weight_v{step:06d}", step)
            assert [each for each in os.listdir(host) if each[0] != "."] == [f"weight_v{step:06d}"]
        # A folder of a version that never gets its marker.
        (sync / "weight_v000003").mkdir()
        monkeypatch.setenv("SPARCL_ENGINES_TIMEOUT", "0.4")
        with pytest.raises(sparcl.TimeoutError, match="weight_v000003"):
            slime.publish(args, str(sync / "weight_v000003"), [])
    finally:
        slime.close()
    monkeypatch.delenv("SPARCL_ENGINES_SOURCE")
    with pytest.raises(sparcl.InvalidArgumentError, match="SPARCL_ENGINES_SOURCE"):
        sglang_pull.fetch(str(host), 3)


def test_a_process_that_is_killed_ends_its_publisher(tmp_path):
    checkpoint(tmp_path / "sync" / "weight_v000001", 1)
    program = """
import os, signal, sys
from sparcl.engines import slime
slime.publish(None, sys.argv[1])
print(slime.address(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = run_python(program, str(tmp_path / "sync" / "weight_v000001"))
    assert run.returncode == -9 and run.stdout, run.stderr
    host, _, port = run.stdout.strip().rpartition(":")
    for _ in range(1000):  # until nothing listens there
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionError:
            return
        time.sleep(0.02)
    raise AssertionError("the publisher goes on")


def test_a_checkpoint_of_the_file_system(tmp_path):
    weights = {"w": torch.zeros(300)}
    out = tmp_path / "model.safetensors"
    with sparcl.Publisher.from_state_dict(weights) as publisher:
        with sparcl.Subscriber.into_checkpoint(out, publisher.address) as served:
            for version in (1, 2):
                weights["w"] += 1
                publisher.publish(version)
                assert served.next(20) == version == served.version
                assert sparcl.hash(out) == sparcl.hash(weights)
            with pytest.raises(sparcl.TimeoutError, match="newer version than 2.*within 0.2 s"):
                served.next(0.2)
    with pytest.raises(sparcl.Error, match="no HOST:PORT"):
        sparcl.Subscriber.into_checkpoint(tmp_path / "x", "nonsense").next(20)
    with sparcl.Publisher.from_state_dict({"v": torch.zeros(3)}) as publisher:
        publisher.publish()
        with pytest.raises(sparcl.Error, match="replace"):
            sparcl.Subscriber.into_checkpoint(out, publisher.address).next(20)
