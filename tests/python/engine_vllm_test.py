"""The backend of vLLM, against a stand-in for vLLM's worker, factories and layerwise reload."""

import types

import pytest

import sparcl

torch = pytest.importorskip("torch", reason="needs torch")
import engine_stubs as stubs  # noqa: E402
from sparcl import engines  # noqa: E402


@pytest.fixture(scope="module")
def layerwise():
    made = stubs.install_vllm()
    engines.register_vllm()
    engines.register_vllm()  # vLLM loads plugins in every process, at times twice
    return made


class Setup:
    """A trainer and an engine of several workers, which are threads."""

    def __init__(self, workers=1, **worker):
        from sparcl.engines import vllm, vllm_trainer

        self.source = stubs.trained()
        self.workers = [stubs.Worker(self.source) for _ in range(workers)]
        groups = [
            types.SimpleNamespace(world_size=workers, cpu_group=rank) for rank in range(workers)
        ]
        self.before, vllm.Comm = vllm.Comm, stubs.Comms(workers)
        self.client = stubs.Client(self.workers, groups)
        self.info = vllm_trainer.SparclTrainerInitInfo(worker={"timeout": 20, **worker})
        self.trainer = self.new_trainer()

    def new_trainer(self):
        return stubs.TrainerFactory.trainer_init(
            self.info, client=self.client, source=Source(self.source)
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        from sparcl.engines import vllm

        vllm.Comm = self.before
        for worker in self.workers:
            worker.engine.shutdown()
        self.trainer.shutdown()

    def serve(self, version, model):
        return all(
            worker.engine.version == version and stubs.same(worker.model.weights, model)
            for worker in self.workers
        )


class Source:
    """A WeightSource."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __iter__(self):
        return iter(self.tensors.items())


def copy_of(model):
    return {name: each.clone() for name, each in model.items()}


def test_changed_tensors_alone_are_loaded(layerwise):
    with Setup(hand_over="changed") as engine:
        assert engine.trainer.send_weights() == 1 and engine.serve(1, engine.source)
        assert engine.client.version == "1"
        loaded = engine.workers[0].model.loaded
        assert loaded == [list(engine.source)]
        engine.source["model.layers.1.k.weight"][3] += 1
        assert engine.trainer.send_weights() == 2 and engine.serve(2, engine.source)
        assert loaded[1:] == [["model.layers.1.k.weight"]]
        assert engine.trainer.send_weights() == 3 and engine.serve(3, engine.source)
        assert loaded[2:] == []  # nothing has changed


def test_layers_are_loaded_whole(layerwise):
    with Setup() as engine:
        engine.trainer.send_weights()
        engine.source["model.layers.1.k.weight"][3] += 1
        engine.source["embed.weight"][3] += 1
        engine.trainer.send_weights()
        assert engine.serve(2, engine.source)  # no NaN: no layer was loaded in part
        names = [name for call in engine.workers[0].model.loaded for name in call]
        layer = [f"model.layers.1.{each}.weight" for each in ("q", "k", "norm")]
        assert names == ["embed.weight", *layer]


# Of 30 or 40 rows: with 30 a subscriber does not keep the old values.
@pytest.mark.parametrize("part", [1, 30])
@pytest.mark.parametrize("hand_over", ["changed", "layers"])
def test_an_engine_that_cannot_load_serves_the_version_before(layerwise, hand_over, part):
    with Setup(workers=2, hand_over=hand_over) as engine:
        engine.trainer.send_weights()
        old = copy_of(engine.source)
        for version in (2, 3):
            for each in engine.source.values():
                each[:part] += 1
            model = engine.workers[version % 2].model
            model.fail_at, model.failures = "model.layers.1.norm.weight", 1
            with pytest.raises(sparcl.Error, match="did not load.*no room.*serves version 1"):
                engine.trainer.send_weights()
            assert engine.serve(1, old) and engine.client.version == "1"
        assert engine.trainer.send_weights() == 4 and engine.serve(4, engine.source)


def partly(load):
    """The second call fails before it writes."""
    calls = []

    def load_weights(weights):
        calls.append(len(weights))
        if len(calls) == 2:
            raise ValueError("no room at all")
        load(weights)

    return load_weights


def test_a_worker_that_cannot_go_back_says_so_and_takes_the_next_version(layerwise):
    with Setup(hand_over="changed") as engine:
        engine.trainer.send_weights()
        model = engine.workers[0].model
        model.fail_at = "model.layers.1.k.weight"
        for name in ("embed.weight", "model.layers.0.q.weight", model.fail_at):
            engine.source[name].add_(1)
        old = model.weights["embed.weight"].clone()
        # The new embedding is loaded, and the old one is not loaded again.
        model.load_weights = partly(model.load_weights)
        with pytest.raises(sparcl.Error, match="parts of it .no room at all"):
            engine.trainer.send_weights()
        assert not torch.equal(model.weights["embed.weight"], old)
        engine.source["embed.weight"].copy_(old)
        assert engine.trainer.send_weights() == 3 and engine.serve(3, engine.source)


def test_all_workers_change_or_none(layerwise, monkeypatch):
    def no_memory(info, keep_old):
        raise MemoryError("no memory for the shadow")

    with Setup(workers=2) as engine:
        engine.trainer.send_weights()
        old = copy_of(engine.source)
        engine.source["embed.weight"][0] += 1
        monkeypatch.setattr(engine.workers[1].engine._shadow, "_follow", no_memory)
        with pytest.raises(sparcl.InvalidArgumentError, match="rank 1: no memory"):
            engine.trainer.send_weights()
        assert engine.serve(1, old)
        monkeypatch.undo()
        assert engine.trainer.send_weights() == 3 and engine.serve(3, engine.source)


def test_a_publisher_that_is_away_leaves_the_old_version(layerwise):
    with Setup(timeout=0.5) as engine:
        engine.trainer.send_weights()
        info = engine.trainer.staged.update_info(2)
        engine.trainer.staged.close()
        engine.client.start_weight_update()
        with pytest.raises((sparcl.TimeoutError, sparcl.RemoteError)):
            engine.client.update_weights(info)
        engine.client.finish_weight_update()
        assert engine.serve(1, engine.source)


def test_a_trainer_that_was_restarted(layerwise):
    with Setup(workers=2) as engine:
        for _ in range(3):
            engine.trainer.send_weights()
        engine.trainer.shutdown()
        old = copy_of(engine.source)
        engine.source["embed.weight"][0] += 1
        engine.trainer = engine.new_trainer()
        engine.workers[0].model.fail_at = "embed.weight"
        with pytest.raises(sparcl.Error, match="serves version 3"):
            engine.trainer.send_weights()
        assert engine.serve(3, old)
        assert engine.trainer.send_weights() == 2 and engine.serve(2, engine.source)


def test_wrong_calls_are_named(layerwise):
    from sparcl.engines.vllm_trainer import SparclTrainerInitInfo

    with pytest.raises(sparcl.InvalidArgumentError, match="hand_over is 'some'"):
        Setup(hand_over="some")
    with pytest.raises(ValueError, match="init_info"):
        Setup(nonsense=1)
    with pytest.raises(sparcl.InvalidArgumentError, match="source"):
        stubs.TrainerFactory.trainer_init(SparclTrainerInitInfo(), client=None)
    with Setup() as engine:
        engine.trainer.send_weights()
        del engine.source["embed.weight"]
        with pytest.raises(sparcl.InvalidArgumentError, match="no tensor 'embed.weight'"):
            engine.trainer.send_weights()
        worker = stubs.Worker(engine.source)
        worker.active = True
        with pytest.raises(sparcl.InvalidUsageError, match="init_weight_transfer_engine"):
            worker.update_weights(engine.trainer.staged.update_info(1))
        other = SparclTrainerInitInfo(rank=1)
        follower = stubs.TrainerFactory.trainer_init(other, client=None, source=Source({}))
        assert follower.send_weights() == 0
