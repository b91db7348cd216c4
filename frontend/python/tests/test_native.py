"""codegen="rk": lowered steps in one arena, inside of Python."""

from __future__ import annotations

import contextlib
import copy
import gc

import pytest
import torch
from test_hard_places import Chain, floats
from torch import nn
from training import equal, train

import rk
from rk import cache, measure, models, native


@pytest.fixture
def programs(monkeypatch):
    """Every program that is made, in order."""
    made = []
    original = native.Program.__init__

    def noted(self, *args):
        original(self, *args)
        made.append(self)

    monkeypatch.setattr(native.Program, "__init__", noted)
    return made


def compiled(model, **options):
    return torch.compile(model, backend="rk", options={"codegen": "rk", "time_limit": "1s", **options})


class Perceptron(nn.Module):
    """A mixture of what is hard: batch norm, dropout, a branch, an activation that is returned."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
        self.norm = nn.BatchNorm1d(64)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        hidden = x
        for layer in self.layers:
            hidden = self.drop(torch.nn.functional.gelu(layer(hidden))) + hidden
        return self.norm(hidden)


def perceptron():
    torch.manual_seed(0)
    return Perceptron(), lambda _: (torch.randn(128, 64),)


def resnet():
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=10), lambda _: (torch.randn(4, 3, 64, 64),)


def gpt2():
    torch.manual_seed(0)
    model = models.gpt2(layers=2, width=64, heads=4, vocabulary=128, length=64)
    return model, lambda _: (torch.randint(128, (2, 64)),)


@pytest.mark.parametrize("budget", ["80%", "60%", "40%"])
@pytest.mark.parametrize("make", [perceptron, resnet, gpt2])
def test_real_models_train_to_the_same_bits_in_one_arena(make, budget, programs):
    model, batches = make()
    eager = train(model, batches, False)
    with contextlib.suppress(RuntimeWarning):
        found = train(model, batches, True, codegen="rk", budget=budget, on_infeasible="best")
    assert equal(eager, found)
    (program,) = programs
    took = program.measured()
    assert took.outside == 0 and took.placed > 0
    assert took.peak <= took.arena
