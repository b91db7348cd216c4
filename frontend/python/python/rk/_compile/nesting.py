"""Several graphs in one step: the memory of one is held while the next one runs.

A graph break cuts a model into graphs that run one inside the other: forward of the first, forward of the
second, backward of the second, backward of the first. What the second needs is, seen from the first,
workspace of the call ``rk.tangents``, in which the caller is busy. That is how the graphs share one budget:
the inner one gets its share by need, but at least what it cannot do without, and the outer one is planned
again with what is left.

Whether a graph runs inside another is not guessed from names: it is seen when the inner one is compiled and
a tensor that the outer one saved is still alive.
"""

from __future__ import annotations

import itertools
import re
import warnings
import weakref
from typing import Any

import torch

from rk._plan.schedule import Problem, Schedule
from rk.errors import BudgetError


class Graph:
    """One training graph of a model, its problem, and its place among the others."""

    def __init__(self, options_id: int, reason: Any) -> None:
        """``reason`` is Dynamo's account of why the graph ended."""
        self.options_id = options_id
        self.reason = reason
        self.problem: Problem | None = None
        self.inside = 0
        """Bytes that the graphs inside of this one need."""
        self.budget = ""
        self.total = ""
        """The budget of the whole model, as long as this graph is the outermost."""
        self.peak = 0
        """Of the plan that it runs with."""
        self.stale = False
        """It must be planned again, because another graph was found to run inside of it."""
        self.joined = False
        """It was planned as one that runs inside of others."""
        self.place: int | None = None
        """Its place in the order in which graphs ran first; None before it has run."""
        self._saved: weakref.ref[torch.Tensor] | None = None

    def ran_forward(self, saved: torch.Tensor | None) -> None:
        """Notes what forward has left for backward."""
        self._saved = None if saved is None else weakref.ref(saved)
        if self.place is None:
            self.place = next(_PLACES)

    @property
    def holds_memory(self) -> bool:
        """Whether forward has run, and backward has not."""
        return self._saved is not None and self._saved() is not None


GRAPHS: weakref.WeakSet[Graph] = weakref.WeakSet()
"""All graphs that may still run."""
_PLACES = itertools.count()


def around(graph: Graph) -> list[Graph]:
    """The graphs of the same model that are between forward and backward now, the outermost first."""
    held = [one for one in GRAPHS if one.options_id == graph.options_id and one.holds_memory]
    return sorted((one for one in held if one is not graph), key=lambda one: one.place)


def plan(graph: Graph, problem: Problem, budget: str) -> Schedule:
    """Plans a graph that is compiled now, and divides the budget if it runs inside of others."""
    graph.problem = problem
    outer: list[Graph] = []
    if graph.stale:
        graph.stale = False
    else:
        GRAPHS.add(graph)
        graph.budget = graph.total = budget
        outer = around(graph)
    schedule = _join(graph, outer) if outer else problem.plan(graph.budget, graph.inside)
    graph.peak = schedule.peak
    return schedule


def begin(graph: Graph) -> None:
    """Before the first run: graphs that were compiled ahead (those of DDP's buckets) show only now where
    they run.
    """
    if graph.problem is not None and not graph.joined and (outer := around(graph)):
        _join(graph, outer)
        graph.stale = True


def _join(graph: Graph, outer: list[Graph]) -> Schedule:
    graph.joined = True
    # Each was planned as if it were alone, and keeps that plan for the rest of this step.
    most = sum(one.peak - one.inside for one in outer)
    schedule = _divide([*outer, graph], outer[0].total)
    _warn(outer, most + schedule.peak)
    return schedule


def _divide(chain: list[Graph], budget: str) -> Schedule:
    """Gives every graph of a chain its budget, the innermost first; returns the plan of the innermost."""
    needs: list[int] = []
    inside = 0
    for graph in reversed(chain):
        inside = graph.problem.base_peak(inside)
        needs.append(inside)
    needs.reverse()
    total = int(needs[0] * float(budget[:-1]) / 100) if budget.endswith("%") else int(budget)
    inside, innermost = 0, None
    for place in reversed(range(len(chain))):
        graph = chain[place]
        share = total if place == 0 else min(total * needs[place] // needs[0], needs[place])
        try:
            schedule = graph.problem.plan(str(share), inside)
        except BudgetError as error:
            if place == 0 or error.smallest_bytes is None or error.smallest_bytes > total:
                raise
            share = error.smallest_bytes
            schedule = graph.problem.plan(str(share), inside)
        innermost = innermost or schedule
        graph.stale |= graph is not chain[-1] and (graph.inside != inside or graph.budget != str(share))
        graph.inside, graph.budget = inside, str(share)
        inside = schedule.peak
    return innermost


def _warn(outer: list[Graph], most: int) -> None:
    """``most`` are the bytes that the step in which this is noticed may take."""
    breaks = "; ".join(_told(graph.reason) for graph in outer)
    warnings.warn(
        f"rk: the model runs as {len(outer) + 1} graphs, which share the budget of {outer[0].total} by need; "
        f"this first step was begun without knowing that, and may take up to {most} bytes. Broken {breaks}",
        stacklevel=2,
    )


def _told(reason: Any) -> str:
    """Where and why Dynamo ended a graph."""
    stack = getattr(reason, "user_stack", None) or []
    place = f"at {stack[-1].filename}:{stack[-1].lineno}" if stack else "at an unknown place"
    lines = str(getattr(reason, "reason", "")).strip()
    hint = ""
    if re.search(r"\b(RNN|LSTM|GRU)", lines):
        hint = "; torch._dynamo.config.allow_rnn = True lets recurrent layers be traced and planned"
    return f"{place} ({lines.split(chr(10))[0]}{hint})"
