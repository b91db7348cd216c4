"""Tensors whose shape changes in place under a memory budget: eager's bits, or refused by name."""

from __future__ import annotations

import pytest
import torch
from online_models import Meter
from test_online import equal, train
from torch import nn

import rk

TURNS = {
    "transpose_": lambda x: x.transpose_(0, 1),
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(),
    "squeeze_ of one": lambda x: x.unsqueeze_(0).squeeze_(0),
    "swapaxes_": lambda x: x.swapaxes_(0, -1),
}


class Turned(nn.Module):
    """Layers whose results are turned in place, and viewed afterwards."""

    def __init__(self, turn):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))
        self.turn = turn

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x)) * 0.9
            self.turn(x)
            x = x.reshape(32, 32) + x[:1].sum()
        return x.square().mean()


def square(step):
    """A batch of as many rows as columns."""
    return torch.randn(32, 32, generator=torch.Generator().manual_seed(step))


@pytest.mark.parametrize("turn", TURNS)
def test_a_shape_that_changes_in_place(turn):
    def make():
        return Turned(TURNS[turn])

    eager = Meter()
    expected = train(make, square, meter=eager, steps=3)
    context, meter = rk.memory_budget(int(eager.peak * 0.6)), Meter()
    assert equal(train(make, square, context, meter=meter, steps=3), expected)
    assert context.statistics()["recomputations"] > 0
    assert meter.peak <= int(eager.peak * 0.6) + meter.largest


def test_what_gives_a_tensor_other_memory_is_refused_by_name():
    with rk.memory_budget(None), pytest.raises(NotImplementedError, match=r"aten\.resize_\.default changes"):
        torch.ones(4).sin().resize_(2)
    outside, weight = torch.ones(2, 3), torch.ones(2, 2, requires_grad=True)
    with rk.memory_budget(None), pytest.raises(NotImplementedError, match=r"aten\.t_\.default changes"):
        outside.t_()
    with rk.memory_budget(None), pytest.raises(NotImplementedError, match=r"aten\.t_\.default changes"):
        x = weight * 2
        before = x[:1]
        x.t_()
        before.sum().backward()
    with rk.memory_budget(None), pytest.raises(NotImplementedError, match=r"aten\.t_\.default changes"):
        (weight * 2)[:1].t_()
