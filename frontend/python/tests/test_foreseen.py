"""What Inductor's code will add up to is foreseen from the plan's runs, within half a percent."""

from __future__ import annotations

import dataclasses

import torch
from test_units import MOST, plans, within  # noqa: F401
from torch import nn

from benchmarks.small_models import Loss, Recurrent
from rk._plan.schedule import Problem


class Attention(nn.Module):
    """Layers with dropout in attention: one kernel makes the weights before and after, both for backward."""

    def __init__(self, layers=2, width=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            q, k, v = layer(x).chunk(3, -1)
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        return x.square().mean()


class Scaled(nn.Module):
    """Kernels that follow each other, and whose results the next one needs only."""

    def __init__(self, width=64):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        x = self.layer(x)
        scale = x.detach()
        for dimension in (0, 1, 0, 1):
            scale = scale.flip(0, 1).softmax(dimension)
        return (x.sin() * scale).square().mean()


def is_foreseen(planned):
    return abs(planned.foreseen - planned.peak) <= MOST * planned.peak


def test_results_that_nobody_reads_are_not_made(plans, monkeypatch):  # noqa: F811
    """Everything runs again, so that forward makes of each kernel's results what forward itself reads."""

    def checkpoint(problem, *_):
        return dataclasses.replace(problem.checkpoint(), budget=10**6)

    monkeypatch.setattr(Problem, "plan", checkpoint)
    torch.manual_seed(0)
    model = Attention()
    x = torch.randn(2, 64, 16)
    torch.compile(model, backend="rk", options={"codegen": "inductor", "budget": 10**9})(x).backward()
    planned = plans[-1]
    forward, _ = planned.halves_replayed
    assert planned.pinned and is_foreseen(planned)
    assert planned.schedule.forward > (1 + MOST) * forward.peak, "the planner counts them"


def test_what_inductor_holds_for_several_kernels_is_foreseen(plans):  # noqa: F811
    torch.manual_seed(0)
    _, peak = within(Scaled(), (torch.randn(64, 64),), "100%")
    planned = plans[-1]
    assert not planned.pinned and is_foreseen(planned)
    assert planned.schedule.peak < (1 - MOST) * planned.peak, "a plan gives back after every kernel"
    assert peak >= (1 - MOST) * planned.foreseen


def test_parts_of_a_concatenation_are_made_with_it(plans):  # noqa: F811
    """All gates of a cell are one kernel, whose results are parts."""
    torch.manual_seed(0)
    _, peak = within(Loss(Recurrent(16, 3)), (torch.randn(64, 16),), "80%")
    planned = plans[-1]
    assert planned.pinned and is_foreseen(planned)
    assert (1 - MOST) * planned.foreseen <= peak <= planned.budget
