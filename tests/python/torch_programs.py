"""Programs of ranks that are processes: torch_programs.py NAME, with torchrun's variables."""

import os
import sys

import torch
import torch.distributed as dist

import sparcl
import sparcl.torch

SIZE = 96


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(),
        torch.nn.Linear(SIZE, 5),
    )  # fmt: skip


def train(model, optimizer, steps, rank):
    for step in steps:
        random = torch.Generator().manual_seed(100 * step + rank)
        inputs = torch.randn(16, SIZE, generator=random)
        optimizer.zero_grad()
        (model(inputs) - inputs[:, :5]).square().mean().backward()
        optimizer.step()


def flat(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def same_on_all_ranks(value):
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value)
    return all(torch.equal(each, parts[0]) for each in parts)


def ddp(rank):
    """Small buckets, which torch makes anew after a step; a checkpoint; a rank that dies."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 4 * SIZE * SIZE
    comm = sparcl.Comm.from_torch(timeout=60)

    def start():
        model = model_of()
        wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
        hook = sparcl.torch.TopKHook(comm, 0.05, momentum=0.9)
        hook.register(wrapped)
        return model, wrapped, hook, torch.optim.SGD(wrapped.parameters(), lr=0.1)

    model, wrapped, hook, optimizer = start()
    train(wrapped, optimizer, range(1), rank)
    first = [bucket.layout for bucket in hook._waiting._buckets.values()]
    train(wrapped, optimizer, range(1, 3), rank)
    rebuilt = [bucket.layout for bucket in hook._waiting._buckets.values()]
    assert rebuilt != first and len(rebuilt) > 1, (first, rebuilt)
    assert sorted(name for layout in rebuilt for name, _ in layout) == sorted(
        name for name, _ in model.named_parameters()
    )
    saved = (model.state_dict(), hook.state_dict())
    saved = ({name: each.clone() for name, each in saved[0].items()}, saved[1])
    train(wrapped, optimizer, range(3, 6), rank)
    assert same_on_all_ranks(flat(model)) and hook.step == 6
    assert 0 < hook.stats.sent_fraction < 0.7

    again, wrapped, hook, optimizer = start()
    again.load_state_dict(saved[0])
    hook.load_state_dict(saved[1])
    train(wrapped, optimizer, range(3, 6), rank)
    assert same_on_all_ranks(flat(again))
    # The first step after a load has torch's first buckets, which select other elements.
    torch.testing.assert_close(flat(again), flat(model), rtol=0.2, atol=0.02)

    if rank == 1:
        os._exit(0)
    try:
        train(wrapped, optimizer, range(6, 8), rank)
    except (sparcl.RemoteError, RuntimeError) as error:  # torch 1.13 wraps it
        assert "rank 1" in str(error), error
        assert isinstance(hook.error, sparcl.RemoteError), hook.error
        print("ended with sparcl's error", flush=True)
        os._exit(0)  # gloo waits for the other rank
    raise AssertionError("rank 1 is dead, and no error came")


def fsdp(rank):
    """Two replicas of a model that is sharded over two ranks, beside one model with DDP's mean."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    comm = sparcl.Comm.from_torch(mesh.get_group("replicate"))
    sharded = model_of()
    for each in (sharded[0], sharded[2], sharded):
        fully_shard(each, mesh=mesh["shard"])
    hook = sparcl.torch.FSDPHook(comm, 1.0, feedback=False)  # all elements: the dense mean
    hook.register(sharded)
    train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), range(3), rank)
    dense = model_of()
    wrapped = torch.nn.parallel.DistributedDataParallel(dense)
    train(wrapped, torch.optim.SGD(dense.parameters(), lr=0.1), range(3), rank)
    for name, each in sharded.named_parameters():
        torch.testing.assert_close(each.full_tensor(), dict(dense.named_parameters())[name])
    state = hook.state_dict()
    assert state["step"] == 3 and hook.stats.steps == 3

    hook = sparcl.torch.FSDPHook(comm, 0.05, momentum=0.9)
    hook.register(sharded)
    train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), range(3), rank)
    assert same_on_all_ranks(torch.cat([p.full_tensor().flatten() for p in sharded.parameters()]))
    kept = hook.state_dict()["waiting"]
    assert set(kept) == {"0", "2", ""} and all(len(parts) == 2 for parts in kept.values())

    # Parts of DTensors are slices of whole tensors: a publisher's weights reach the shards.
    publisher, addresses = None, [None]
    if rank == 0:
        publisher = sparcl.Publisher.from_state_dict(dense.state_dict())
        publisher.publish(1)
        addresses = [publisher.address]
    dist.broadcast_object_list(addresses)
    shards = sparcl.State.from_state_dict(sharded.state_dict())
    with sparcl.Subscriber(shards, addresses[0]) as subscriber:
        assert subscriber.next(timeout=30) == 1
    for name, each in sharded.named_parameters():
        assert each.to_local().shape[0] < each.shape[0]
        assert torch.equal(each.full_tensor(), dense.state_dict()[name]), name
    dist.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    {"ddp": ddp, "fsdp": fsdp}[sys.argv[1]](dist.get_rank())
    dist.barrier()
    dist.destroy_process_group()
