"""Stand-ins for engines and trainers: the interfaces that the adapters use, and models to load."""

import contextlib
import sys
import threading
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import torch

import sparcl

Init, Update = TypeVar("Init"), TypeVar("Update")


def install(**modules):
    """Puts modules into sys.modules: install(vllm={...}) with dotted names as a_b."""
    for name, members in modules.items():
        dotted = name.replace("__", ".")
        for end in [at for at, letter in enumerate(dotted + ".") if letter == "."]:
            sys.modules.setdefault(dotted[:end], types.ModuleType(dotted[:end]))
        for key, value in members.items():
            setattr(sys.modules[dotted], key, value)


class Model:
    """A model of an engine: load_weights copies, and can be told to fail at a name."""

    def __init__(self, source):
        self.weights = {name: torch.zeros_like(each) for name, each in source.items()}
        self.loaded = []  # names of each call
        self.fail_at = None
        self.failures = 1

    def load_weights(self, weights):
        self.loaded.append([])
        for name, tensor in weights:
            if name == self.fail_at and self.failures:
                self.failures -= 1
                raise ValueError(f"no room for {name}")
            self.loaded[-1].append(name)
            self.weights[name].copy_(tensor)


def trained(seed=0, layers=3):
    torch.manual_seed(seed)
    model = {"embed.weight": torch.randn(40, 8).bfloat16()}
    for layer in range(layers):
        for name in ("q.weight", "k.weight", "norm.weight"):
            model[f"model.layers.{layer}.{name}"] = torch.randn(30, 8).bfloat16()
    return model


def same(one, other):
    bits = torch.int16
    return all(torch.equal(one[name].view(bits), other[name].view(bits)) for name in one)


# --- vLLM: vllm/distributed/weight_transfer, of July 2026 ---


class WeightTransferInitInfo(ABC):
    pass


class WeightTransferUpdateInfo(ABC):
    pass


@dataclass
class TrainerInitInfo:
    backend: ClassVar[str]
    rank: int = field(default=0)  # keyword-only in vLLM

    @property
    def is_sender(self):
        return self.rank == 0


class WeightTransferEngine(ABC, Generic[Init, Update]):
    def __init__(self, config, vllm_config, device, model):
        self.config, self.vllm_config, self.device, self.model = config, vllm_config, device, model
        self.parallel_config = vllm_config.parallel_config
        self.model_config = vllm_config.model_config

    def parse_init_info(self, given):
        try:
            return self.init_info_cls(**given)
        except TypeError as error:
            raise ValueError(f"Invalid init_info: {error}") from error

    def update_weights(self, given):
        self.receive_weights(self.update_info_cls(**given))

    @abstractmethod
    def init_transfer_engine(self, init_info): ...

    @abstractmethod
    def start_weight_update(self): ...

    @abstractmethod
    def finish_weight_update(self): ...

    @abstractmethod
    def receive_weights(self, update_info): ...

    @abstractmethod
    def shutdown(self): ...


class TrainerWeightTransferEngine(ABC, Generic[Init]):
    def __init__(self, *, client, source=None, is_sender=True):
        self.client, self.source, self.is_sender = client, source, is_sender

    @classmethod
    @abstractmethod
    def trainer_init(cls, init_info, *, client, source=None): ...

    @abstractmethod
    def send_weights(self): ...


def _factory():
    class Factory:
        _registry = {}

        @classmethod
        def register_engine(cls, name, module, class_name):
            import importlib

            if name in cls._registry:
                raise ValueError(f"{name} is already registered")
            cls._registry[name] = lambda: getattr(importlib.import_module(module), class_name)

    return Factory


class EngineFactory(_factory()):
    @classmethod
    def create_engine(cls, config, vllm_config, device, model):
        return cls._registry[config.backend]()(config, vllm_config, device, model)


class TrainerFactory(_factory()):
    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        engine = cls._registry[init_info.backend]()
        return engine.trainer_init(init_info, client=client, source=source)


class Layerwise:
    """vLLM's layerwise reload: a layer that got some, and not all, of its tensors is garbage."""

    def __init__(self):
        self.calls = []

    def initialize(self, model):
        assert model.loaded is not None
        self.calls.append("initialize")
        model.loaded.clear()

    def finalize(self, model, model_config):
        self.calls.append("finalize")
        got = {name for call in model.loaded for name in call}
        layer = lambda name: ".".join(name.split(".")[:3])  # noqa: E731
        for name in model.weights:
            if name not in got and layer(name) in {layer(each) for each in got}:
                model.weights[name].fill_(float("nan"))


world = threading.local()  # .group: what get_world_group gives to this thread


def install_vllm():
    layerwise = Layerwise()
    bases = (
        WeightTransferInitInfo, WeightTransferUpdateInfo, TrainerInitInfo, WeightTransferEngine,
        TrainerWeightTransferEngine,
    )  # fmt: skip
    alone = types.SimpleNamespace(world_size=1, cpu_group=None)
    install(
        vllm__distributed__weight_transfer__base={each.__name__: each for each in bases},
        vllm__distributed__weight_transfer__factory={
            "WeightTransferEngineFactory": EngineFactory,
            "WeightTransferTrainerFactory": TrainerFactory,
        },
        vllm__distributed__parallel_state={
            "get_world_group": lambda: getattr(world, "group", alone),
        },
        vllm__config={"set_current_vllm_config": lambda config: contextlib.nullcontext()},
        vllm__model_executor__model_loader__reload={
            "initialize_layerwise_reload": layerwise.initialize,
            "finalize_layerwise_reload": layerwise.finalize,
        },
    )  # fmt: skip
    sys.modules["vllm.distributed.weight_transfer"].factory = sys.modules[
        "vllm.distributed.weight_transfer.factory"
    ]
    return layerwise


class Worker:
    """What vLLM's worker does with an engine. The control plane carries JSON."""

    def __init__(self, source, rank=0):
        config = types.SimpleNamespace(backend="sparcl")
        vllm_config = types.SimpleNamespace(parallel_config=None, model_config=None)
        self.model = Model(source)
        self.engine = EngineFactory.create_engine(config, vllm_config, "cpu", self.model)
        self.active = False

    def init_weight_transfer_engine(self, init_info):
        self.engine.init_transfer_engine(self.engine.parse_init_info(init_info))

    def start_weight_update(self):
        assert not self.active, "an update is already active"
        self.active = True
        self.engine.start_weight_update()

    def update_weights(self, update_info):
        assert self.active
        self.engine.update_weights(update_info)

    def finish_weight_update(self):
        self.engine.finish_weight_update()
        self.active = False


class Comms:
    """Stands for sparcl.Comm: from_torch(rank) gives ranks that are threads, each call new ones."""

    def __init__(self, count):
        self.count, self.made, self.calls = count, [], [0] * count
        self.lock = threading.Lock()

    def from_torch(self, rank, timeout):
        with self.lock:
            call, self.calls[rank] = self.calls[rank], self.calls[rank] + 1
            if call == len(self.made):
                self.made.append(sparcl.Comm.local(self.count))
            return self.made[call][rank]


class Client:
    """A VLLMWeightSyncClient over workers, each of which has a thread of its own."""

    def __init__(self, workers, groups=None):
        from concurrent.futures import ThreadPoolExecutor

        self.workers, self.version = workers, None
        self.threads = [ThreadPoolExecutor(1) for _ in workers]
        for thread, group in zip(self.threads, groups or []):
            thread.submit(setattr, world, "group", group).result()

    def _all(self, method, *arguments):
        import json

        arguments = json.loads(json.dumps(arguments))
        calls = [
            thread.submit(getattr(worker, method), *arguments)
            for thread, worker in zip(self.threads, self.workers)
        ]
        failures = [call.exception(60) for call in calls]
        for failure in failures:
            if failure is not None:
                raise failure

    def init_weight_transfer_engine(self, init_info):
        self._all("init_weight_transfer_engine", init_info)

    def start_weight_update(self):
        self._all("start_weight_update")

    def update_weights(self, update_info):
        self._all("update_weights", update_info)

    def finish_weight_update(self, weight_version=None):
        self._all("finish_weight_update")
        self.version = weight_version or self.version


# --- verl: verl/checkpoint_engine/base.py, of March 2026 ---


class CheckpointEngineRegistry:
    _registry = {}

    def register(backend):
        def wrap(cls):
            CheckpointEngineRegistry._registry[backend] = cls
            return cls

        return wrap

    @classmethod
    def new(cls, backend, *arguments, **options):
        return cls._registry[backend](*arguments, **options)


class CheckpointEngine(ABC):
    for _name in ("prepare", "init_process_group", "finalize", "send_weights", "receive_weights"):
        locals()[_name] = abstractmethod(lambda self, *arguments, **options: None)


def install_verl():
    install(
        verl__checkpoint_engine__base={
            "CheckpointEngine": CheckpointEngine,
            "CheckpointEngineRegistry": CheckpointEngineRegistry,
        },
        verl__utils__device={"get_device_name": lambda: "cpu"},
    )  # fmt: skip


def verl_update(trainers, workers, generator, servers):
    """What verl's manager does in an update; each server takes what its worker receives."""
    import asyncio

    metadata = [engine.prepare() for engine in trainers + workers]
    kind = type(trainers[0])
    for engines, given in zip(
        (trainers, workers), kind.build_topology(len(trainers), len(workers), metadata)
    ):
        for i, engine in enumerate(engines):
            engine.init_process_group(**{key: values[i] for key, values in given.items()})

    async def receive(engine, server):
        async for name, tensor in engine.receive_weights():
            server.load_weights([(name, tensor)])

    async def all_at_once():
        await asyncio.gather(
            *(engine.send_weights(generator()) for engine in trainers),
            *(receive(engine, server) for engine, server in zip(workers, servers)),
        )

    asyncio.run(asyncio.wait_for(all_at_once(), 60))
    for engine in trainers + workers:
        engine.finalize()


# --- torchft: torchft/checkpointing/transport.py, of October 2025 ---


class CheckpointTransport(ABC):
    for _name in ("metadata", "send_checkpoint", "recv_checkpoint"):
        locals()[_name] = abstractmethod(lambda self, *arguments, **options: None)


def install_torchft():
    install(torchft__checkpointing__transport={"CheckpointTransport": CheckpointTransport})


# --- SkyRL: skyrl/backends/skyrl_train/weight_sync, of August 2026 ---


@dataclass
class WeightSyncInitInfo(ABC):
    override_existing_receiver: bool


class WeightTransferSender(ABC):
    for _name in ("send_chunks", "teardown"):
        locals()[_name] = abstractmethod(lambda self, *arguments, **options: None)


class WeightTransferStrategy(ABC):
    for _name in ("create_init_info", "create_sender", "get_vllm_transfer_engine"):
        locals()[_name] = staticmethod(abstractmethod(lambda *arguments, **options: None))


def install_skyrl():
    package = "skyrl__backends__skyrl_train"
    bases = (WeightSyncInitInfo, WeightTransferSender, WeightTransferStrategy)
    choose = {
        "get_transfer_strategy": lambda weight_sync_backend, colocate_all: "nccl",
        "get_transfer_strategy_cls": lambda weight_sync_backend, colocate_all: object,
    }
    install(
        **{
            f"{package}__weight_sync": choose,
            f"{package}__weight_sync__transfer_strategy": {each.__name__: each for each in bases},
            f"{package}__inference_servers__utils": dict(choose),
        }
    )
    above = "skyrl.backends.skyrl_train"
    for parent, child in ((above, "weight_sync"), (f"{above}.inference_servers", "utils")):
        setattr(sys.modules[parent], child, sys.modules[f"{parent}.{child}"])


class SkyrlClient:
    """SkyRL's RemoteInferenceClient, over a client of vLLM's workers."""

    def __init__(self, client):
        self.client = client

    async def init_weight_update_communicator(self, init_info):
        for each in init_info.for_servers(1, 1):
            self.client.init_weight_transfer_engine(each.to_api_payload())

    async def start_weight_update(self, is_checkpoint_format=True):
        assert not is_checkpoint_format  # else vLLM's layers are on the meta device now
        self.client.start_weight_update()

    async def update_named_weights(self, update_info):
        self.client.update_weights(update_info)

    async def finish_weight_update(self):
        self.client.finish_weight_update()


# --- SGLang ---


def install_sglang():
    alone = types.SimpleNamespace(world_size=1, cpu_group=None)
    install(
        sglang__srt__distributed__parallel_state={
            "get_world_group": lambda: getattr(world, "group", alone),
        }
    )


class SglangEngine:
    """sglang.Engine with ranks that are threads: an exception of a loader ends it."""

    def __init__(self, models, groups=None):
        from concurrent.futures import ThreadPoolExecutor

        self.models, self.flushes = models, 0
        self.threads = [ThreadPoolExecutor(1) for _ in models]
        for thread, group in zip(self.threads, groups or []):
            thread.submit(setattr, world, "group", group).result()

    def update_weights_from_tensor(self, named_tensors, load_format=None, flush_cache=True):
        import importlib

        module, _, name = load_format.rpartition(".")
        loader = getattr(importlib.import_module(module), name)
        calls = [
            thread.submit(loader, model, named_tensors)
            for thread, model in zip(self.threads, self.models)
        ]
        for call in calls:
            call.result(60)
        self.flushes += flush_cache
        return True, "Success"
