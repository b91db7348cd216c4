"""The networks of DTR's evaluation, small: a step of each is a call that returns its loss, at any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.small_models import Loss, Unet

Made = tuple[nn.Module, Any]


class Cells(nn.Module):
    """A recurrent cell of PyTorch's in a loop over time."""

    def __init__(self, cell: nn.Module, times: int) -> None:
        """``times`` are unrolled by Python."""
        super().__init__()
        self.cell, self.times = cell, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss of the last state, for inputs that are halved every time."""
        state = None
        for _ in range(self.times):
            state = self.cell(x, state)
            x = x * 0.5
        return (state[0] if isinstance(state, tuple) else state).square().mean()


class TreeLstm(nn.Module):
    """A child-sum LSTM over a complete binary tree."""

    def __init__(self, width: int = 32, state: int = 64) -> None:
        """``width`` of leaves and inner nodes, ``state`` of what goes up."""
        super().__init__()
        self.state = state
        self.gates_x, self.gates_h = nn.Linear(width, 3 * state), nn.Linear(state, 3 * state, bias=False)
        self.forget_x, self.forget_h = nn.Linear(width, state), nn.Linear(state, state, bias=False)

    def node(self, x: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        """State and memory of a tree with one input for all of its nodes."""
        children = [self.node(x, depth - 1) for _ in range(2)] if depth else []
        gates = self.gates_x(x)
        if children:
            gates = gates + self.gates_h(children[0][0] + children[1][0])
        i, o, u = gates.chunk(3, 1)
        memory = i.sigmoid() * u.tanh()
        for h, c in children:
            memory = memory + torch.sigmoid(self.forget_x(x) * self.forget_h(h)) * c
        return o.sigmoid() * memory.tanh(), memory

    def forward(self, x: torch.Tensor, depth: int) -> torch.Tensor:
        """The loss of the root."""
        return self.node(x, depth)[1].square().mean()


class UnrolledGan(nn.Module):
    """A generator whose loss looks through steps of the discriminator's training: gradients of gradients."""

    def __init__(self, width: int = 64, unrolled: int = 4) -> None:
        """Two perceptrons."""
        super().__init__()
        self.unrolled = unrolled
        self.generator = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.first = nn.Parameter(torch.randn(width, width) * width**-0.5)
        self.last = nn.Parameter(torch.randn(width, 1) * width**-0.5)

    def forward(self, noise: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """The loss of the generator against the discriminator that is to come."""
        made = self.generator(noise)
        weights = [self.first, self.last]
        for _ in range(self.unrolled):
            judged = [torch.tanh(one @ weights[0]) @ weights[1] for one in (real, made)]
            loss = nn.functional.softplus(-judged[0]).mean() + nn.functional.softplus(judged[1]).mean()
            steps = torch.autograd.grad(loss, weights, create_graph=True)
            weights = [weight - 0.1 * step for weight, step in zip(weights, steps, strict=True)]
        return nn.functional.softplus(-(torch.tanh(made @ weights[0]) @ weights[1])).mean()


def _images(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 32, 32)


def _resnet(batch: int) -> Made:
    import torchvision

    return Loss(torchvision.models.resnet18(num_classes=10)), _images(batch)


def _densenet(batch: int) -> Made:
    import torchvision

    about = {"growth_rate": 8, "block_config": (3, 3, 3), "num_init_features": 16, "num_classes": 10}
    return Loss(torchvision.models.DenseNet(**about)), _images(batch)


MODELS: dict[str, Callable[[int], Made]] = {
    "lstm": lambda batch: (Cells(nn.LSTMCell(64, 128), 24), torch.randn(batch, 64)),
    "gru": lambda batch: (Cells(nn.GRUCell(64, 128), 24), torch.randn(batch, 64)),
    "treelstm": lambda depth: (TreeLstm(), (torch.randn(32, 32), depth)),
    "unrolled_gan": lambda batch: (UnrolledGan(), (torch.randn(batch, 64), torch.randn(batch, 64))),
    "resnet": _resnet,
    "densenet": _densenet,
    "unet": lambda batch: (Loss(Unet(8, 3)), _images(batch)),
}
"""By name, for a size: a batch, or the depth of trees."""
