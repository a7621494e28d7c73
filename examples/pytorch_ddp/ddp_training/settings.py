"""Settings: the defaults, then a YAML file, then the command line."""

import argparse
import dataclasses
from dataclasses import dataclass, field


@dataclass
class Training:
    model: str = "cnn"
    epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 0.05
    momentum: float = 0.9
    seed: int = 1
    device: str = "auto"
    threads: int = 1


@dataclass
class Data:
    train_examples: int = 16384
    test_examples: int = 4096
    noise: float = 0.9


@dataclass
class Compression:
    method: str = "topk"
    ratio: float = 0.01
    feedback: bool = True
    mode: str = "union"
    wire: str = "same"
    momentum_correction: bool = True
    momentum_restart: float = 0.5
    clip: float = 0.0
    warmup_steps: int = 100
    warmup_start: float = 0.25


@dataclass
class Distributed:
    backend: str = "gloo"
    bootstrap: str = "torch"
    nccl: bool = False


@dataclass
class Output:
    folder: str = "runs/default"
    checkpoint_epochs: int = 0
    resume: str = ""
    log_steps: int = 20
    tensorboard: bool = False


@dataclass
class Settings:
    training: Training = field(default_factory=Training)
    data: Data = field(default_factory=Data)
    compression: Compression = field(default_factory=Compression)
    distributed: Distributed = field(default_factory=Distributed)
    output: Output = field(default_factory=Output)


CHOICES = {
    "model": ("cnn", "mlp"),
    "device": ("auto", "cpu", "cuda"),
    "method": ("topk", "masked", "all", "dense"),
    "mode": ("union", "selected", "global"),
    "wire": ("same", "bfloat16", "int8", "int4", "int2"),
    "backend": ("gloo", "nccl"),
    "bootstrap": ("torch", "env", "mpi"),
}


def read_settings(arguments=None):
    """The settings of a command line."""
    settings = Settings()
    parser = argparse.ArgumentParser(description="Trains a small model with DDP and sparcl.")
    parser.add_argument("--config", default="", help="a YAML file, such as configs/default.yaml")
    for name, section in sections(settings):
        group = parser.add_argument_group(name)
        for each in dataclasses.fields(section):
            add_flag(group, each)
    given = vars(parser.parse_args(arguments))
    path = given.pop("config")
    if path:
        take_file(settings, path)
    for _, section in sections(settings):
        for each in dataclasses.fields(section):
            if given[each.name] is not None:
                setattr(section, each.name, given[each.name])
            check(each.name, getattr(section, each.name), each.type)
    return settings


def sections(settings):
    return [(each.name, getattr(settings, each.name)) for each in dataclasses.fields(settings)]


def add_flag(group, each):
    flag = "--" + each.name.replace("_", "-")
    if each.type is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
    else:
        group.add_argument(flag, type=each.type, default=None, help=f"default: {each.default!r}")


def take_file(settings, path):
    try:
        import yaml
    except ImportError:
        raise SystemExit(
            f"{path} needs PyYAML: run `pip install pyyaml`, or use flags in place of --config"
        ) from None
    with open(path, encoding="utf-8") as file:
        content = yaml.safe_load(file) or {}
    known = dict(sections(settings))
    for name, values in content.items():
        if name not in known:
            raise SystemExit(f"{path}: there is no section {name!r}: use one of {', '.join(known)}")
        fields = {each.name: each.type for each in dataclasses.fields(known[name])}
        for key, value in (values or {}).items():
            if key not in fields:
                raise SystemExit(f"{path}: {name} has no {key!r}: use one of {', '.join(fields)}")
            value = float(value) if fields[key] is float and type(value) is int else value
            setattr(known[name], key, value)


def check(name, value, kind):
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SystemExit(f"{name} is {value!r}: it is a {kind.__name__}")
    if name in CHOICES and value not in CHOICES[name]:
        raise SystemExit(f"{name} is {value!r}: it is one of {', '.join(CHOICES[name])}")
