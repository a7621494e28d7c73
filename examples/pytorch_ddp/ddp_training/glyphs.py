"""Images of the size of MNIST's: ten written signs, made by the program.

A class is a few strokes. An example is its class's sign, moved, stretched and turned, with a faint
one of another class, in noise. Each epoch draws its examples anew, so that none is learnt by heart.
"""

import math

import torch

CLASSES, SIDE = 10, 28


class Glyphs:
    def __init__(self, count, seed, noise):
        self.count, self._seed, self._noise = count, seed, noise
        self._strokes = strokes_of_classes()

    def epoch(self, epoch, rank=0, ranks=1):
        """This rank's examples of an epoch: images and labels."""
        random = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch * 1009 + rank)
        count = self.count // ranks
        labels = torch.randint(CLASSES, (count,), generator=random)
        others = torch.randint(CLASSES, (count,), generator=random)
        images = torch.zeros(count, 1, SIDE, SIDE)
        for begin in range(0, count, 512):
            part = slice(begin, begin + 512)
            own = draw(self._strokes[labels[part]], random)
            images[part, 0] = own + 0.4 * draw(self._strokes[others[part]], random)
        images += self._noise * torch.randn(images.shape, generator=random)
        return images - 0.2, labels


def strokes_of_classes(per_class=3, points=12):
    """Points of the signs, between -1 and 1: curves of second degree."""
    random = torch.Generator().manual_seed(2018)
    ends = torch.rand(CLASSES, per_class, 3, 2, generator=random) * 1.6 - 0.8
    t = torch.linspace(0, 1, points).view(1, 1, -1, 1)
    first, middle, last = (ends[:, :, i : i + 1] for i in range(3))
    curve = (1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t**2 * last
    return curve.reshape(CLASSES, per_class * points, 2)


def draw(points, random):
    """Images of moved, stretched and turned points, as soft dots."""
    count = points.shape[0]
    angle = (torch.rand(count, generator=random) - 0.5) * 0.6
    scale = 0.8 + 0.4 * torch.rand(count, generator=random)
    shift = (torch.rand(count, 1, 2, generator=random) - 0.5) * 0.5
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2)
    at = (points @ turn * scale.view(-1, 1, 1) + shift + 1) * (SIDE / 2)
    grid = torch.arange(SIDE) + 0.5
    rows = torch.exp(-((grid - at[:, :, 0:1]) ** 2) / 1.5)
    columns = torch.exp(-((grid - at[:, :, 1:2]) ** 2) / 1.5)
    return torch.einsum("npr,npc->nrc", rows, columns).clamp(max=1.0)


def steps_of(count, batch_size):
    return math.ceil(count / batch_size)
