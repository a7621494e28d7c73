"""examples/pytorch_ddp: short trainings, checkpoints, settings and the comparison's page."""

import importlib
import json
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_processes_test import HAS_GLOO, run_processes  # noqa: E402

EXAMPLE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../examples/pytorch_ddp"))
SHORT = ["--train-examples", "256", "--test-examples", "128", "--batch-size", "16",
         "--log-steps", "2", "--model", "mlp", "--warmup-steps", "4"]  # fmt: skip


@pytest.fixture
def example(monkeypatch):
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(EXAMPLE)
    yield importlib.import_module
    for name in [each for each in sys.modules if each.split(".")[0] in ("ddp_training", "train")]:
        del sys.modules[name]


def records_of(folder):
    with open(os.path.join(folder, "steps.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_one_process_trains_without_a_process_group(example, tmp_path, monkeypatch):
    for name in ("RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    threads = torch.get_num_threads()
    example("train").main([*SHORT, "--epochs", "3", "--folder", str(tmp_path)])
    torch.set_num_threads(threads)
    tests = [each for each in records_of(tmp_path) if each["kind"] == "test"]
    assert [each["step"] for each in tests] == [16, 32, 48]
    assert tests[2]["loss"] < tests[0]["loss"]
    assert not torch.distributed.is_initialized()


@pytest.mark.skipif(not HAS_GLOO, reason="this PyTorch has no gloo")
def test_a_resumed_training_ends_as_the_uninterrupted_one(tmp_path):
    whole, part = str(tmp_path / "whole"), str(tmp_path / "part")
    common = ["train.py", *SHORT, "--epochs", "4", "--ratio", "0.05"]
    run_processes(2, [*common, "--folder", whole, "--checkpoint-epochs", "2"], EXAMPLE)
    run_processes(2, [*common, "--folder", part, "--resume", whole + "/epoch_2"], EXAMPLE)
    last, again = records_of(whole)[-1], records_of(part)[-1]
    assert last["step"] == again["step"] == 32 and last["ratio"] == 0.05
    assert again["loss"] == pytest.approx(last["loss"], rel=1e-3)
    assert 0 < last["sent_fraction"] < 0.5


def test_settings_come_from_defaults_then_the_file_then_flags(example, tmp_path):
    read = example("ddp_training.settings").read_settings
    path = tmp_path / "own.yaml"
    path.write_text("compression: {ratio: 0.02, feedback: false}\ntraining: {learning_rate: 1}\n")
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    own = read(["--config", str(path), "--feedback", "--epochs", "2"])
    assert own.compression.ratio == 0.02 and own.compression.feedback
    assert own.training.learning_rate == 1.0 and own.training.epochs == 2
    defaults = read(["--config", os.path.join(EXAMPLE, "configs/default.yaml")])
    assert defaults == read([]), "configs/default.yaml does not show the defaults"
    for name in ("dense", "gpu"):
        read(["--config", os.path.join(EXAMPLE, f"configs/{name}.yaml")])


@pytest.mark.parametrize(
    "text, words",
    [("compresion: {}", "no section 'compresion'"), ("data: {nois: 1}", "data has no 'nois'"),
     ("training: {epochs: many}", "epochs is 'many'"),
     ("compression: {mode: all}", "one of union")],
)  # fmt: skip
def test_wrong_settings_are_named(example, tmp_path, text, words):
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit, match=words):
        example("ddp_training.settings").read_settings(["--config", str(path)])


def test_the_data_are_the_same_in_every_run_and_other_ones_in_each_epoch(example):
    glyphs = example("ddp_training.glyphs").Glyphs(64, 1, 0.5)
    images, labels = glyphs.epoch(3, rank=1, ranks=2)
    again, same = glyphs.epoch(3, rank=1, ranks=2)
    assert images.shape == (32, 1, 28, 28) and torch.equal(images, again)
    assert torch.equal(labels, same) and set(labels.tolist()) <= set(range(10))
    assert not torch.equal(images, glyphs.epoch(3, rank=0, ranks=2)[0])
    assert not torch.equal(images, glyphs.epoch(4, rank=1, ranks=2)[0])


def test_the_page_compares_with_dense(example):
    compare = example("compare")

    def runs(loss, **more):
        test = {"kind": "test", "step": 8, "loss": loss, "accuracy": 0.5, **more}
        return [[{"kind": "train", "step": 2, "step_ms": 3.0}, test]]

    own = types.SimpleNamespace(ranks=4, seeds=[1])
    page = list(compare.losses_of(own, {
        "dense": runs(0.5), "top-k": runs(0.6, bytes_sent=2e6, sent_fraction=0.04),
    }))  # fmt: skip
    assert "| dense | 0.5000 (0.5000) | 1.000 | 50.00 % | - | - | 3.0 |" in page
    assert "| top-k | 0.6000 (0.6000) | 1.200 | 50.00 % | 2.0 | 4.0 % | 3.0 |" in page
    costs = {2: {"dense": 125e3, "topk": 12.5e3}}  # 1 and 0.1 ms at 1 Gb/s
    table = list(compare.efficiency_of(costs, alone=1.0))
    assert table[-1] == "| 2 | 125.0 | 12.5 | 0.50 | 0.91 | 0.91 | 0.99 |"
