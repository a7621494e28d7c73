"""An engine of vLLM whose workers are processes: one of them dies in an update."""

import json
import os
import subprocess
import sys

import pytest


torch = pytest.importorskip("torch", reason="needs torch")
import engine_stubs as stubs  # noqa: E402

WORKER = """
import json, os, sys, types
import torch.distributed as dist
import engine_stubs as stubs
from sparcl import engines

stubs.install_vllm()
engines.register_vllm()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # gloo writes to standard output
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
stubs.world.group = types.SimpleNamespace(world_size=2, cpu_group=None)
model = stubs.trained()
worker = stubs.Worker(model)
print(json.dumps("ready"), file=answers, flush=True)
for line in sys.stdin:
    method, arguments = json.loads(line)
    try:
        getattr(worker, method)(*arguments)
        error = None
    except Exception as failure:
        error = str(failure)
    state = {name: each.float().sum().item() for name, each in worker.model.weights.items()}
    print(json.dumps([error, worker.engine.version, state]), file=answers, flush=True)
"""


class Process:
    def __init__(self, rank, file):
        folder = os.path.dirname(os.path.abspath(__file__))
        path = os.pathsep.join([folder, *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), str(file)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def ask(self, method, *arguments):
        self.process.stdin.write(json.dumps([method, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())


def test_a_worker_that_dies_leaves_the_others_at_the_old_version(tmp_path):
    from sparcl.engines._staged import Staged

    workers = [Process(rank, tmp_path / "meeting") for rank in range(2)]
    staged = Staged()
    source = stubs.trained()
    try:
        assert [worker.answer() for worker in workers] == ["ready", "ready"]

        def on_all(method, *arguments):
            for worker in workers:
                worker.ask(method, *arguments)
            return [worker.answer() for worker in workers]

        answers = on_all("init_weight_transfer_engine", {"timeout": 30})
        if "UCX" in (answers[0][0] or ""):
            pytest.skip(f"ranks are processes, which needs UCX: {answers[0][0]}")
        on_all("start_weight_update")
        version = staged.publish(source.items())
        for error, held, state in on_all("update_weights", staged.update_info(version)):
            assert error is None and held == 1
            assert state == {name: each.float().sum().item() for name, each in source.items()}
        on_all("finish_weight_update")
        old = state
        source["embed.weight"] += 1
        version = staged.publish(source.items())
        workers[0].ask("start_weight_update")
        assert workers[0].answer()[0] is None
        workers[0].ask("update_weights", staged.update_info(version))
        workers[1].process.kill()
        error, held, state = workers[0].answer()
        assert "rank 1" in error and held == 1 and state == old
    finally:
        staged.close()
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
            worker.process.stdin.close()
            worker.process.stdout.close()
