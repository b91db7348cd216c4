"""Inductor's kernels where one graph is called many times: one plan, which all of its calls share."""

from __future__ import annotations

import pytest
from larger import LARGER
from test_pairs import Encoder, pair, whole
from test_runs import Tower, by_blocks, equal, once, trained

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


@LARGER
def test_calls_that_meet_are_told_of_and_share_the_budget_then():
    peaks, _ = trained(lambda: Encoder(1), pair, whole(), steps=1)
    with pytest.warns(UserWarning, match="another forward pass begins before the backward pass of forward"):
        found, _ = trained(lambda: Encoder(1), pair, whole(budget=int(0.8 * peaks[0]), codegen="inductor"))
    (shared,) = group.GROUPS.values()
    assert shared.times >= 1 and found[-1] <= 0.8 * peaks[0]
