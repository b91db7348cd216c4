"""Inductor's kernels where one graph is called many times: one plan, which all of its calls share."""

from __future__ import annotations

import pytest
import torch
from larger import LARGER
from test_pairs import Encoder, pair, whole
from test_runs import Block, Tower, by_blocks, equal, once, trained

from rk._run import group


def by_blocks_in_inductor(model):
    for block in model.blocks:
        block.compile(backend="inductor")


def small():
    return Tower(4)


def test_equal_layers_share_the_budget():
    peaks, bits = trained(small, once, by_blocks_in_inductor, steps=4)
    budget = int(0.7 * peaks[-1])
    found, same = trained(small, once, by_blocks(budget=budget, codegen="inductor"), steps=4)
    assert equal(bits, same)
    # Kernels are compiled and measured within the first step.
    assert all(peak <= budget for peak in found[1:]), (budget, found)
    assert found[-1] >= 0.75 * budget, "what is free is used once the sequence is known"


class Attending(Block):
    """Its weights of attention are saved, and Inductor has one buffer for them and for a view of them."""

    def forward(self, x):
        q, k, v = self.up(self.norm(x))[..., :96].chunk(3, -1)
        return super().forward(x + torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


def test_a_buffer_that_is_called_by_a_view():
    def attending():
        tower = small()
        tower.blocks = torch.nn.ModuleList(Attending() for _ in range(2))
        return tower

    peaks, _ = trained(attending, once, by_blocks_in_inductor, steps=2)
    budget = int(0.7 * peaks[-1])
    found, _ = trained(attending, once, by_blocks(budget=budget, codegen="inductor"), steps=3)
    assert all(peak <= budget for peak in found[1:]), (budget, found)


@LARGER
def test_calls_that_meet_are_told_of_and_share_the_budget_then():
    peaks, _ = trained(lambda: Encoder(1), pair, whole(), steps=1)
    with pytest.warns(UserWarning, match="another forward pass begins before the backward pass of forward"):
        found, _ = trained(lambda: Encoder(1), pair, whole(budget=int(0.8 * peaks[0]), codegen="inductor"))
    (shared,) = group.GROUPS.values()
    assert shared.times >= 1 and found[-1] <= 0.8 * peaks[0]
