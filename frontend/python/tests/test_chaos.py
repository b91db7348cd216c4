"""Schedules and addresses that were changed at random are refused by a law, or give the same bits."""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from random import Random

import only_with_runtime  # noqa: F401
import pytest
import torch
from torch import nn

import rk

sys.path.append(str(Path(__file__).parents[1]))
from campaigns.chaos import mutations  # noqa: E402
from campaigns.chaos.__main__ import chaos, verdict  # noqa: E402
from campaigns.chaos.steps import TOOLS, steps_of  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (TOOLS / "rk-translate").exists(), reason="needs rk-translate: cargo build --release"
)


def network():
    """Something random, something that is written, and enough to run again."""
    layers = [
        nn.Linear(32, 32),
        nn.GELU(),
        nn.Dropout(0.3),
        nn.Linear(32, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(True),
    ]
    return nn.Sequential(*layers, nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)), (torch.randn(256, 32),)


@pytest.fixture(scope="module")
def step():
    # With measured times, a busy machine may give a plan in which a change has nothing to change.
    with rk.config.patch(reproducible=True):
        (made,) = steps_of(network)
    return made


def test_no_change_gives_other_bits(step):
    assert "rk.run again" in step.scheduled and "rk.launch again" in step.lowered
    found = collections.Counter()
    for stage, kind, what, details, _ in chaos(step, seed=0, each=2, end=float("inf")):
        assert what != "wrong", (stage, kind, details)
        found[what] += 1
    assert {"S1", "S2", "S3", "S4", "S7", "equal"} <= set(found), found


@pytest.mark.parametrize(
    ("stage", "kind", "laws"),
    [
        ("scheduled", "a drop is lost", {"S3"}),
        ("scheduled", "a drop comes twice", {"S2"}),
        ("scheduled", "`again` is added", {"S4"}),
        # What it reads instead may have been dropped.
        ("scheduled", "a second run reads something else", {"S1", "S4"}),
        ("scheduled", "rk.budget is smaller", {"S7"}),
        ("lowered", "a launch is lost", {"S1"}),
        ("lowered", "a second launch reads something else", {"S1", "S4"}),
        ("lowered", "rk.arena is smaller", {"S7"}),
    ],
)
def test_the_law_that_is_broken_is_named(step, stage, kind, laws):
    text = mutations.mutated(stage, getattr(step, stage), kind, Random(0))
    assert verdict(step, stage, text)[0] in laws


def test_other_bits_are_seen(step):
    """The comparison itself: another rate of dropout is another step."""
    changed = step.scheduled.replace(", 0.3, true)", ", 0.4, true)")
    assert changed != step.scheduled and verdict(step, "scheduled", changed)[0] == "wrong"
    assert verdict(step, "scheduled", step.scheduled) == ("equal", "")
