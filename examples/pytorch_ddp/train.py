#!/usr/bin/env python3
"""Trains a small model on one or several ranks, with top-k gradients: see README.md."""

import math
import time

import torch
from ddp_training import checkpoints
from ddp_training.glyphs import Glyphs, steps_of
from ddp_training.models import make_model
from ddp_training.ranks import Ranks, has_own_momentum
from ddp_training.records import Records
from ddp_training.settings import read_settings


def main(arguments=None):
    settings = read_settings(arguments)
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    ranks = Ranks(settings)
    try:
        train(settings, ranks)
    finally:
        ranks.close()


def train(settings, ranks):
    own = settings.training
    torch.manual_seed(own.seed)
    model = make_model(own.model).to(ranks.device)
    wrapped, hook = ranks.wrap(model, settings)
    momentum = 0.0 if hook is not None and has_own_momentum(settings) else own.momentum
    optimizer = torch.optim.SGD(model.parameters(), lr=own.learning_rate, momentum=momentum)
    data = Glyphs(settings.data.train_examples, own.seed, settings.data.noise)
    tests = Glyphs(settings.data.test_examples, 2**20, settings.data.noise).epoch(0)
    first, step = 0, 0
    if settings.output.resume:
        first, step = checkpoints.load(settings.output.resume, ranks, model, optimizer, hook)
    records = Records(settings, ranks.rank, step > 0)
    per_epoch = steps_of(data.count // ranks.count, own.batch_size)
    for epoch in range(first, own.epochs):
        for images, labels in batches(data.epoch(epoch, ranks.rank, ranks.count), own.batch_size):
            began = time.monotonic()
            share = step / (per_epoch * own.epochs)
            optimizer.param_groups[0]["lr"] = own.learning_rate * rate_factor(share)
            optimizer.zero_grad()
            loss = loss_of(wrapped, images.to(ranks.device), labels.to(ranks.device))
            loss.backward()
            optimizer.step()
            step += 1
            if step % settings.output.log_steps == 0:
                took = time.monotonic() - began
                records.write("train", step, loss=loss.item(), step_ms=1e3 * took, **sent(hook))
        loss, accuracy = test(model, tests, ranks.device)
        records.write("test", step, loss=loss, accuracy=accuracy, epoch=epoch + 1, **sent(hook))
        every = settings.output.checkpoint_epochs
        if every and (epoch + 1) % every == 0:
            folder = f"{settings.output.folder}/epoch_{epoch + 1}"
            checkpoints.save(folder, ranks, epoch + 1, step, model, optimizer, hook)
    records.close()


def rate_factor(share):
    """Of the learning rate: a cosine from 1 to 0."""
    return (1 + math.cos(math.pi * share)) / 2


def batches(examples, size):
    return zip(*(part.split(size) for part in examples))


def loss_of(model, images, labels):
    return torch.nn.functional.cross_entropy(model(images), labels)


def test(model, examples, device):
    """Mean loss and accuracy on examples that no rank trains on."""
    loss = right = 0.0
    with torch.no_grad():
        for images, labels in batches(examples, 512):
            scores = model(images.to(device))
            labels = labels.to(device)
            loss += torch.nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
    return loss / len(examples[1]), right / len(examples[1])


def sent(hook):
    """What this rank has sent."""
    if hook is None:
        return {}
    stats = hook.stats
    return {
        "bytes_sent": stats.bytes_sent, "dense_bytes": stats.dense_bytes,
        "sent_fraction": stats.sent_fraction, "ratio": stats.ratio,
    }  # fmt: skip


if __name__ == "__main__":
    main()
