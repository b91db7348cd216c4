"""Views whose memory is written to under a memory budget: the bits of eager's gradients, and how they lie."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
from torch import nn

import rk
from rk._codegen import bits

VIEWS = {
    "transposed": lambda y: y.t(),
    "columns": lambda y: y[:, 2:7],
    "a part, transposed": lambda y: y[1:5].t()[2:],
    "in other rows": lambda y: y.view(4, 64).t(),
    "the diagonal": lambda y: y.diagonal(),
}
OVERLAPPING = {
    "expanded": lambda y: y[:, :1].expand(16, 9),
    "windows": lambda y: y.unfold(1, 4, 2),
}


def unseen(y, view):
    with torch.no_grad():
        y.add_(0.5)


def seen(y, view):
    y.mul_(1.5)


def through_the_view(y, view):
    view.mul_(1.5)


def behind_autograd(y, view):
    y.data.add_(0.5)


def twice(y, view):
    unseen(y, view)
    y.data.mul_(0.9)
    unseen(y, view)


WRITES = {write.__name__: write for write in (unseen, seen, through_the_view, behind_autograd, twice)}


def train(view, write, context):
    torch.manual_seed(300173)
    linear, x = nn.Linear(16, 16), torch.randn(16, 16)
    lies = []
    with context:
        y = nn.functional.gelu(linear(x))
        y.register_hook(lambda gradient: lies.append(gradient.stride()))
        shown, mean = view(y), y.mean()
        write(y, shown)
        sum(one.abs().square().mean() for one in (y, shown, mean)).backward(retain_graph=True)
        (shown * 0.5 + y.mean()).sum().backward()
    return linear.weight.grad, linear.bias.grad, lies


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", VIEWS)
def test_gradients_lie_as_eagers_do(name, write):
    expected = train(VIEWS[name], WRITES[write], contextlib.nullcontext())
    for budget in (None, 7_000):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = train(VIEWS[name], WRITES[write], rk.memory_budget(budget))
        assert found[2] == expected[2]
        assert all(map(bits.equal, found[:2], expected[:2]))


@pytest.mark.parametrize("name", OVERLAPPING)
def test_sums_in_another_order_are_told(name):
    with pytest.warns(UserWarning, match="shows some of its memory several times"):
        train(OVERLAPPING[name], unseen, rk.memory_budget(None))


def test_without_a_write_nothing_is_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(OVERLAPPING["expanded"], lambda y, view: None, rk.memory_budget(None))
