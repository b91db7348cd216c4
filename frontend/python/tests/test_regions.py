"""Regions that a model marks with ``nested_compile_region`` are planned like the rest of it."""

import copy

import pytest
import torch
from codegens import CODEGENS
from torch import nn

import rk


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        more = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x + nn.functional.dropout(more, 0.1)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


class Inside(nn.Module):
    """A region in a region, with graphs of an operator inside."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        @torch.compiler.nested_compile_region
        def gate(x):
            return x.tanh() * x

        @torch.compiler.nested_compile_region
        def branch(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (gate(x),))

        return branch(branch(self.layer(x))).sum()


def trained(model, **how):
    """Losses of two steps, and the gradients."""
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, **how)
    losses = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        loss = run(torch.linspace(-1, 1, 64 * 32).view(64, 32))
        loss.backward()
        losses.append(loss.detach())
    return [*losses, *(one.grad for one in twin.parameters())]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("codegen", CODEGENS)
def test_regions_have_the_same_bits_and_keep_the_budget(codegen):
    model, options = Tower(), {"budget": "65%", "codegen": codegen}
    assert equal(trained(model, backend="aot_eager"), trained(model, backend="rk", options=options))
    assert [one.peak <= one.budget for one in rk.plans()] == [True]


def test_regions_inside_of_regions_and_graphs_inside_of_those():
    model = Inside()
    options = {"budget": "90%", "on_infeasible": "best"}
    assert equal(trained(model, backend="aot_eager"), trained(model, backend="rk", options=options))


def test_plans_are_of_the_operators_inside_of_regions():
    plan = rk.plan(Tower(), torch.ones(64, 32), "60%")
    assert plan.peak <= 0.6 * plan.base_peak
