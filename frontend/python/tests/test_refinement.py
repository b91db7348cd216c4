"""Plans between those that a choice is made among at first: they save time, and few of them run."""

from __future__ import annotations

from test_runs import Block, Tower, by_blocks, equal, once, trained
from torch import nn

from rk._run import group, refinement

BUDGET = 2_500_000
"""Half of what the step takes without a plan."""


class Layer(nn.Module):
    """Three blocks as one layer: there is much that it may hold, or not."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, x):
        return self.blocks(x)


class Layers(Tower):
    """Five such layers."""

    def __init__(self):
        super().__init__(0)
        self.blocks = nn.ModuleList(Layer() for _ in range(5))


def chosen(budget):
    """What the steps leave, and the choice for them."""
    group.GROUPS.clear()
    peaks, bits = trained(Layers, once, by_blocks(budget=budget))
    assert all(peak <= budget for peak in peaks)
    (shared,) = group.GROUPS.values()
    return bits, shared.known[-1]


def test_a_step_with_plans_in_between_takes_less_time(monkeypatch):
    bits, refined = chosen(BUDGET)
    monkeypatch.setattr(refinement, "refined", lambda observed, budget, variants, found: found)
    same, first = chosen(BUDGET)
    assert equal(bits, same)
    assert refined.lower_bound <= refined.time < first.time
    assert len({id(one) for one in refined.variants}) <= refinement.MOST_PLANS
