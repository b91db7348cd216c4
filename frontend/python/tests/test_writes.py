"""Writes into parts of tensors: the bits of aot_eager, and no more bytes than what is written."""

from __future__ import annotations

import pytest
import torch
from codegens import CODEGENS
from torch import nn

import rk
from rk._graph import capture
from rk._plan import measure
from rk._run.classes import GraphClass


def columns(x):
    y = torch.zeros(4, 8)
    y[:, :3] = x.sin()
    return y.cos().sum()


def rows_and_columns(x):
    y = torch.zeros(8, 8, dtype=torch.float64)
    y[2:6, :3] = x.sin()
    y[::2, 1::3] += 1
    return y.cos().sum()


def spread(x):
    y = x.new_zeros(5, 4, 3)
    y[1:3] = x.sin()[None]
    y[0, 0] = x[0] * 2
    return (y * y).sum()


def through_views(x):
    y = torch.zeros(4, 8) + x.sum()
    turned = y[1:3].t()
    turned[2:4] = x[:2, :2]
    return (y.exp() * turned.sum()).sum()


def in_place(x):
    y = x * 2
    y[:, 1:].mul_(3.0)
    y[0].add_(x[1])
    y.diagonal().zero_()
    return y.sin().sum()


def at_an_offset(x):
    y = x * 2
    y.as_strided((2, 2), (3, 1), 1).copy_(x[:2, :2])
    return y.sin().sum()


def returned(x):
    y = torch.zeros(4, 8)
    y[:, :3] = x.sin()
    return (y[:, 1:4] * y.sum()).sum()


def scattered_into_a_part(x):
    whole = torch.zeros(8, 8) + x.sum()
    part = torch.select_scatter(whole[1:5], x.sum(1).repeat(2), 0, 1)
    return torch.slice_scatter(part[:, 2:6], x[:, :2], 1, 0, 2).exp().sum() + whole[0].sum()


def seen_through_a_wider_type(x):
    y = torch.zeros(4, 6)
    torch.view_as_complex(y.view(4, 3, 2))[:, 1] = torch.complex(x[:, 0], x[:, 1])
    return (y * x.sum()).sin().sum()


EVERY = [
    columns,
    rows_and_columns,
    spread,
    through_views,
    in_place,
    at_an_offset,
    returned,
    scattered_into_a_part,
    seen_through_a_wider_type,
]


def gradient(function, backend, **options):
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(4, 3, requires_grad=True)
    loss = torch.compile(function, backend=backend, **options)(x)
    loss.backward()
    return loss.detach(), x.grad


@pytest.mark.parametrize("codegen", CODEGENS)
@pytest.mark.parametrize("function", EVERY)
def test_a_written_part_has_the_bits_of_aot_eager(function, codegen):
    expected = gradient(function, "aot_eager")
    found = gradient(function, "rk", options={"codegen": codegen, "budget": "100%"})
    assert all(map(torch.equal, expected, found))


class Cache(nn.Module):
    """Writes two rows into a long buffer at each layer, as a cache of keys does."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.register_buffer("cache", torch.zeros(4, 4096, 8))

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            self.cache[place, 2:4] = layer(x).detach()
            x = layer(x) + self.cache[place, 1:3]
        return x.square().mean()


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_buffer_is_written_into(codegen):
    def trained(backend, **options):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Cache()
        function = torch.compile(model, backend=backend, **options)
        for _ in range(2):
            function(torch.randn(2, 8)).backward()
        return [*model.buffers(), *(one.grad for one in model.parameters())]

    expected = trained("aot_eager")
    assert all(map(torch.equal, expected, trained("rk", options={"codegen": codegen, "budget": "100%"})))


def test_a_write_into_a_part_takes_the_bytes_that_are_planned(monkeypatch):
    """PyTorch's functional copy of a few rows clones the storage that they lie in."""

    def function(x):
        y = torch.zeros(64, 4096)
        y[1, :8] = x.detach()
        return (y[1, :8] * x).sum()

    plans = []
    original = GraphClass.plan
    monkeypatch.setattr(GraphClass, "plan", lambda *args: plans.append(original(*args)) or plans[-1])
    x = torch.randn(8, requires_grad=True)
    compiled = rk.compile(function, budget="100%")
    compiled(x).backward()
    with measure.memory(torch.device("cpu")) as seen:
        compiled(x).backward()
    (plan,) = plans
    assert seen.peak <= plan.budget


def test_a_chain_of_copies_becomes_one_scatter():
    graph = capture.step_of(through_views, torch.randn(4, 3, requires_grad=True)).gm.graph
    graph.lint()
    targets = [node.target for node in graph.nodes]
    assert targets.count(torch.ops.aten.as_strided_scatter.default) == 2
    assert torch.ops.aten.slice_scatter.default not in targets
