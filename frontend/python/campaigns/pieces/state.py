"""Pieces with buffers: counters, averages, queues, caches, and what the caller hands in to be written."""

from __future__ import annotations

import torch
from torch import nn

from campaigns.pieces.registry import piece


@piece("buffer", weight=3, how=("subtract", "multiply", "add", "mask"))
class Constant(nn.Module):
    """A buffer that is read."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        self.register_buffer("kept", torch.linspace(-0.5, 0.5, width))

    def forward(self, x):
        if self.how == "subtract":
            return torch.tanh(x - self.kept)
        if self.how == "multiply":
            return torch.tanh(x * (self.kept + 1.2))
        return torch.tanh(x + self.kept) if self.how == "add" else torch.where(self.kept > 0, x, x.sin())


@piece("buffer", weight=3, when=("after", "before", "between"), how=("in place", "copy_", "assign", "lerp_"))
class Average(nn.Module):
    """A running average that is read, too."""

    def __init__(self, width, when, how):
        super().__init__()
        self.when, self.how = when, how
        self.register_buffer("mean", torch.zeros(width))

    def update(self, x):
        with torch.no_grad():
            now = x.mean(0)
            if self.how == "in place":
                self.mean.mul_(0.9).add_(now, alpha=0.1)
            elif self.how == "copy_":
                self.mean.copy_(self.mean * 0.9 + now * 0.1)
            elif self.how == "lerp_":
                self.mean.lerp_(now, 0.1)
            else:
                self.mean = self.mean * 0.9 + now * 0.1

    def forward(self, x):
        if self.when == "before":
            self.update(x)
        y = torch.tanh(x * (1 + self.mean))
        if self.when == "between":
            self.update(y)
            y = torch.sin(y * (1 + self.mean))
        if self.when == "after":
            self.update(x)
        return y


@piece("buffer", weight=2, kind=("long", "float"))
class Counter(nn.Module):
    """Counts its calls, and computes with the count."""

    def __init__(self, width, kind):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=getattr(torch, kind)))

    def forward(self, x):
        self.calls += 1
        return x * (1 + 1 / self.calls) * 0.6


@piece("buffer", weight=2, how=("slice", "index", "roll"))
class Queue(nn.Module):
    """A queue of what came by, as contrastive learning keeps one."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        self.register_buffer("queue", torch.linspace(-1, 1, 8 * width).reshape(8, width))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        seen = self.queue.clone()
        y = torch.softmax(x @ seen.t(), 1) @ seen
        with torch.no_grad():
            if self.how == "slice":
                self.queue[:4] = x[:4]
            elif self.how == "index":
                self.queue.index_copy_(0, self.place, x[:1].to(self.queue.dtype))
                self.place.copy_((self.place + 1) % 8)
            else:
                self.queue.copy_(self.queue.roll(1, 0))
        return x + y


@piece("buffer")
class Cache(nn.Module):
    """A cache that is written with what is trained, detached only afterwards."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, width), persistent=False)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        cache = self.cache.clone()
        cache[1] = self.linear(x).mean(0)
        y = x + torch.tanh(cache).sum(0)
        self.cache = cache.detach()
        return y


@piece("buffer")
class SharedBuffer(nn.Module):
    """Two buffers that are views of one storage; one of them is written."""

    def __init__(self, width):
        super().__init__()
        both = torch.zeros(2, width)
        self.register_buffer("low", both[0])
        self.register_buffer("both", both)

    def forward(self, x):
        y = torch.sin(x * (self.both.sum(0) + 1))
        with torch.no_grad():
            self.low.add_(0.25)
        return torch.cos(y * (self.both.sum(0) + 1))


@piece("buffer")
class Teacher(nn.Module):
    """A moving average of a trained layer's weights, which sees the same rows."""

    def __init__(self, width):
        super().__init__()
        self.student = nn.Linear(width, width)
        self.teacher = nn.Linear(width, width).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)
            aim = self.teacher(x)
        return torch.tanh(self.student(x)) * aim.sigmoid()


@piece("given", weight=2, takes=("mask",), how=("multiply", "where", "fill"))
def masked(x, mask, how):
    if how == "multiply":
        return torch.sin(x * mask)
    return torch.where(mask > 0, x, x.tanh()) if how == "where" else x.masked_fill(mask == 0, 0.1)


@piece("given", weight=2, takes=("scale",))
def scaled(x, scale):
    return torch.tanh(x * scale)


@piece("given", weight=2, takes=("shift",))
def shifted(x, shift):
    return torch.sin(x - shift) * torch.cos(shift)


@piece(
    "written input",
    weight=3,
    takes=("state",),
    when=("after", "before"),
    how=("add_", "slice", "copy_", "data"),
)
def updating(x, state, when, how):
    y = torch.tanh(x + state) if when == "after" else x
    with torch.no_grad():
        if how == "add_":
            state.add_(x.mean(0))
        elif how == "slice":
            state[:4] = x[0, :4]
        elif how == "copy_":
            state.copy_(x.amax(0))
        else:
            state.data.mul_(0.5)
    return y if when == "after" else torch.tanh(y * state)


@piece("written input", takes=("state",))
def written_with_gradient(x, state):
    rows = x.new_zeros(x.shape)
    rows.copy_(state)
    rows.mul_(x)
    return torch.sin(rows) + x


@piece("given", takes=("labels",))
class Lookup(nn.Module):
    """Adds what a table says of the labels."""

    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(16, width)

    def forward(self, x, labels):
        return x + self.table(labels)
