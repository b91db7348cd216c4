"""Recurring segments under a memory budget: eager's bits, what is recognised, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
from online_models import Meter
from test_online import MODELS, equal, nothing_stays, train

import rk


@pytest.mark.parametrize("name", list(MODELS))
def test_twenty_steps_are_equal_with_segments(name):
    make, data = MODELS[name]
    eager = Meter()
    expected = train(make, data, meter=eager)
    for share in (0.6, 0.4):
        context = rk.memory_budget(int(eager.peak * share), segments=True)
        meter = Meter()
        found = train(make, data, context, meter=meter)
        assert equal(found, expected), share
        statistics = context.statistics()
        # Which rows an expert sees differs at every step, and so do the shapes.
        if name != "experts":
            assert statistics["segment_instances"] > statistics["segment_classes"] > 0
        assert meter.peak <= int(eager.peak * share) + meter.largest
        nothing_stays(context)


def test_what_recurs_is_recognised_and_what_differs_is_not():
    def run(scales):
        with rk.memory_budget(None, segments=True) as context:
            x = torch.ones(8, 8)
            for scale in scales:
                for _ in range(4):
                    x = (x * scale).tanh() + 1
            return context.statistics()

    same = run([2.0] * 12)
    assert same["segment_calls"] > 100 and same["segment_classes"] <= 2
    # A constant of its own in every call: nothing recurs.
    with rk.memory_budget(None, segments=True) as context:
        x = torch.ones(8, 8)
        for turn in range(48):
            x = (x * (2.0 + turn)).tanh() + turn
        assert context.statistics()["segment_calls"] == 0


def test_plans_for_a_looser_budget_do_not_stay(monkeypatch):
    """Parts that come back again and again are weighed value by value: without that it is more than twice.

    Every call takes a microsecond here: whom to evict would depend on the load of the machine otherwise.
    """
    ticks = itertools.count(0, 1000)
    monkeypatch.setattr("rk._online.calls.perf_counter_ns", lambda: next(ticks))
    make, data = MODELS["gpt2"]
    eager = Meter()
    train(make, data, meter=eager, steps=6)
    counts = []
    for segments in (False, True):
        context = rk.memory_budget(int(eager.peak * 0.4), segments=segments)
        train(make, data, context, steps=6)
        counts.append(context.statistics()["recomputations"])
    assert counts[1] < 1.7 * counts[0]


def test_heuristics_that_cannot_weigh_segments_are_refused():
    with pytest.raises(ValueError, match="h_dtr_eq"):
        rk.memory_budget("1MB", heuristic="h_msps", segments=True)
