"""Graphs inside one another, as graph breaks make them, share one budget: whatever runs them, from the first
step on.
"""

from __future__ import annotations

import pytest
import torch
from larger import LARGER
from test_runs import equal, trained
from torch import nn

from rk._run import group


class Part(nn.Module):
    def __init__(self, layers, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x))
        return x


class Branch(nn.Module):
    """An operator of higher order: its graph has one plan."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v.sin() * v.tanh(), lambda v: v.cos() * v.tanh(), (x,))


class Broken(nn.Module):
    def __init__(self, branches=False):
        super().__init__()
        self.parts = nn.ModuleList(Part(layers) for layers in (6, 3, 4))
        self.branch = Branch() if branches else nn.Identity()

    def forward(self, x):
        x = self.parts[0](x)
        torch._dynamo.graph_break()
        x = self.branch(self.parts[1](x))
        torch._dynamo.graph_break()
        return self.parts[2](x).square().mean()


ROWS = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))


def step(model):
    model(ROWS).backward()


def whole(backend, **options):
    def compiled(model):
        model.compile(backend=backend, options=options) if options else model.compile(backend=backend)

    return compiled


def planned(make, beside, budget, **options):
    """The peaks of rk's steps, after their bits were compared."""
    group.GROUPS.clear()
    bits = trained(make, step, whole(beside))[1]
    peaks, same = trained(make, step, whole("rk", budget=budget, **options))
    assert equal(bits, same)
    return peaks


@pytest.mark.parametrize("share", ["bytes", pytest.param("percent", marks=LARGER)])
@pytest.mark.parametrize("make, beside, codegen", [
    (Broken, "inductor", "inductor"),
    (lambda: Broken(branches=True), "aot_eager", "fx"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:rk. the kernels that Inductor")
def test_graphs_inside_one_another_keep_the_budget_in_every_step(make, beside, codegen, share):
    most = trained(make, step, whole(beside))[0][-1]
    budget = int(0.7 * most) if share == "bytes" else "70%"
    peaks = planned(make, beside, budget, codegen=codegen)
    # Inductor's kernels are compiled and measured within the first step.
    first = 1 if codegen == "inductor" else 0
    assert all(peak <= 0.7 * most for peak in peaks[first:]), (most, peaks)
    assert peaks[-1] >= 0.5 * most, "what is free is used once the sequence is known"


@LARGER
def test_a_graph_that_ends_in_a_break_has_the_whole_budget_if_nothing_runs_inside_of_it():
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part(6)

        def forward(self, x):
            loss = self.part(x).square().mean()
            torch._dynamo.graph_break()
            return loss

    most = trained(Apart, step, whole("inductor"))[0][-1]
    peaks = planned(Apart, "inductor", most, codegen="inductor")
    assert peaks[-1] >= 0.9 * most
