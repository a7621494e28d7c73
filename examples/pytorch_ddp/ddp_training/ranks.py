"""Ranks: of torchrun, of mpirun, or one process alone; and the hook that they reduce with."""

import os

import torch
import torch.distributed as dist

import sparcl


class Ranks:
    """This process among the ranks. One rank needs no torch.distributed."""

    def __init__(self, settings):
        read_launcher(os.environ)
        self.rank = int(os.environ.get("RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = device_of(settings.training.device)
        if self.count > 1:
            dist.init_process_group(settings.distributed.backend)
        self.comm = make_comm(settings.distributed.bootstrap, self.count)
        if settings.distributed.nccl:
            self.comm.use_nccl()

    def wrap(self, model, settings):
        """The model for data-parallel steps, and its hook; None: no hook."""
        if self.count == 1:
            return model, None
        ids = [self.device.index] if self.device.type == "cuda" else None
        wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
        hook = make_hook(self.comm, settings)
        if hook is not None:
            hook.register(wrapped)
        return wrapped, hook

    def close(self):
        self.comm.close()
        if self.count > 1:
            dist.destroy_process_group()


def read_launcher(env):
    """Open MPI's variables under torchrun's names."""
    if "RANK" in env or "OMPI_COMM_WORLD_RANK" not in env:
        return
    env["RANK"], env["WORLD_SIZE"] = env["OMPI_COMM_WORLD_RANK"], env["OMPI_COMM_WORLD_SIZE"]
    env["LOCAL_RANK"] = env["OMPI_COMM_WORLD_LOCAL_RANK"]
    env.setdefault("MASTER_ADDR", "127.0.0.1")
    env.setdefault("MASTER_PORT", "29500")


def device_of(name):
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def make_comm(bootstrap, count):
    if count == 1:
        return sparcl.Comm.local(1)[0]
    if bootstrap == "torch":
        return sparcl.Comm.from_torch()
    if bootstrap == "env":
        return sparcl.Comm.from_env()
    from mpi4py import MPI

    return sparcl.Comm.from_mpi(MPI.COMM_WORLD, transport="mpi")


def has_own_momentum(settings):
    """Whether the hook, not the optimiser, applies the momentum."""
    compression = settings.compression
    return compression.method in ("topk", "masked") and compression.momentum_correction


def make_hook(comm, settings):
    from sparcl.torch import MaskedHook, TopKHook, WarmUp

    own = settings.compression
    if own.method == "dense":
        return None
    if own.method == "all":
        return MaskedHook(comm, 1.0, feedback=False)
    options = {
        "feedback": own.feedback,
        "momentum": settings.training.momentum if has_own_momentum(settings) else None,
        "restart": own.momentum_restart,
        "clip": own.clip or None,
        "warmup": WarmUp(own.warmup_steps, own.warmup_start) if own.warmup_steps else None,
    }
    if own.method == "masked":
        return MaskedHook(comm, own.ratio, seed=settings.training.seed, **options)
    return TopKHook(comm, own.ratio, mode=own.mode, wire=own.wire, **options)
