"""Checkpoints: the model once, and what waits in the hook on each rank."""

import os

import torch


def save(folder, ranks, epoch, step, model, optimizer, hook):
    """Collective: when it returns on all ranks, the checkpoint is complete."""
    os.makedirs(folder, exist_ok=True)
    own = {"epoch": epoch, "step": step, "hook": None if hook is None else hook.state_dict()}
    write(own, os.path.join(folder, f"rank_{ranks.rank}.pt"))
    if ranks.rank == 0:
        shared = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        write(shared, os.path.join(folder, "model.pt"))


def load(folder, ranks, model, optimizer, hook):
    """The epoch and the step to go on with."""
    path = os.path.join(folder, f"rank_{ranks.rank}.pt")
    if not os.path.exists(path):
        raise SystemExit(
            f"{path} is not there: resume with as many ranks as saved, and with a folder that all "
            "hosts see"
        )
    shared = torch.load(os.path.join(folder, "model.pt"), map_location=ranks.device)
    model.load_state_dict(shared["model"])
    optimizer.load_state_dict(shared["optimizer"])
    own = torch.load(path)
    if hook is not None and own["hook"] is not None:
        hook.load_state_dict(own["hook"])
    return own["epoch"], own["step"]


def write(content, path):
    """The file appears when it is complete."""
    torch.save(content, path + ".part")
    os.replace(path + ".part", path)
