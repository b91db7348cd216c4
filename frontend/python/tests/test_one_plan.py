"""Graphs of which all calls run one plan, where steps of several kinds take turns.

The graphs here have one plan because of an operator of higher order.
"""

from __future__ import annotations

import pytest
import torch
from test_graph_breaks import ROWS, Branch, Part
from torch import nn

import rk
from rk._plan import measure
from rk._run import group


class Models:
    """Two models with one budget."""

    def __init__(self, budget, sizes=(6, 4), **options):
        torch._dynamo.reset()
        group.GROUPS.clear()
        torch.manual_seed(0)
        self.both = nn.ModuleList(nn.Sequential(Part(layers), Branch()) for layers in sizes)
        self.first, self.second = (rk.compile(one, budget=budget, **options) for one in self.both)

    def alone(self):
        _loss(self.first(ROWS)).backward()

    def nested(self):
        _loss(self.second(self.first(ROWS))).backward()

    def pair(self):
        (_loss(self.first(ROWS)) + _loss(self.first(ROWS + 1))).backward()

    def validation(self):
        return [_loss(self.first(ROWS)) for _ in range(3)]

    def peaks(self, *steps):
        return [measure.peak(step, self.both) for step in steps]


def _loss(rows):
    return rows.square().mean()


def test_a_plan_suits_all_kinds_of_steps_that_are_known():
    budget = 700_000
    models = Models(budget)
    nested, alone = [models.nested] * 3, [models.alone] * 3
    peaks = models.peaks(*nested, *alone, *nested)
    assert all(peak <= budget for peak in peaks), peaks


@pytest.mark.parametrize("scope", ["activations", "total"])
def test_what_stands_there_is_counted_once(scope):
    models = Models(1_200_000, **{"scope": scope})
    stands = 2 * sum(one.nbytes for one in models.both.parameters()) if scope == "total" else 0
    peaks = models.peaks(*[models.nested] * 3)
    assert all(0.5 * 1_200_000 <= peak + stands <= 1_200_000 for peak in peaks[1:]), peaks


def test_the_first_step_of_a_share_takes_no_more_than_the_graph_would_alone():
    class Continued(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.branch = Part(6), Branch()

        def forward(self, x):
            loss = _loss(self.branch(self.part(x)))
            torch._dynamo.graph_break()
            return loss

    def peaks(budget):
        torch._dynamo.reset()
        group.GROUPS.clear()
        model = Continued()
        run = rk.compile(model, budget=budget)
        return [measure.peak(lambda: run(ROWS).backward(), model) for _ in range(3)]

    most = peaks("100%")[-1]
    assert all(peak <= 0.6 * most for peak in peaks("60%"))


def test_a_single_step_takes_a_plan_away_for_a_while():
    models = Models(2_600_000)
    before = models.peaks(*[models.alone] * 3)[-1]
    models.peaks(models.validation)
    after = models.peaks(*[models.alone] * 3)
    assert after[0] < before == after[-1]


def test_a_second_call_beside_one_that_has_the_whole_budget_is_told_of():
    models = Models(1_400_000)
    models.peaks(*[models.alone] * 3)
    with pytest.warns(UserWarning, match="has one plan"):
        models.peaks(models.pair)
    assert all(peak <= 1_400_000 for peak in models.peaks(*[models.pair] * 3))
