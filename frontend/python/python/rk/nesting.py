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

import warnings
import weakref
from typing import Any

import torch

from rk.errors import BudgetError
from rk.schedule import Problem, Schedule


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
        self.stale = False
        """It must be planned again, because another graph was found to run inside of it."""
        self._saved: weakref.ref[torch.Tensor] | None = None

    def ran_forward(self, saved: torch.Tensor | None) -> None:
        """Notes what forward has left for backward."""
        self._saved = None if saved is None else weakref.ref(saved)

    @property
    def holds_memory(self) -> bool:
        """Whether forward has run, and backward has not."""
        return self._saved is not None and self._saved() is not None


GRAPHS: list[weakref.ref[Graph]] = []
"""All graphs that may still run, in the order in which they were compiled."""


def around(graph: Graph) -> list[Graph]:
    """The graphs of the same model that are between forward and backward now, the outermost first."""
    known = [found for ref in GRAPHS if (found := ref()) is not None]
    GRAPHS[:] = [weakref.ref(found) for found in known]
    return [
        one for one in known if one is not graph and one.options_id == graph.options_id and one.holds_memory
    ]


def plan(graph: Graph, problem: Problem, budget: str) -> Schedule:
    """Plans a graph that is compiled now, and divides the budget if it runs inside of others."""
    graph.problem, graph.budget = problem, budget
    outer = around(graph)
    if all(ref() is not graph for ref in GRAPHS):
        GRAPHS.append(weakref.ref(graph))
    if not outer or graph.stale:
        graph.stale = False
        return problem.plan(graph.budget, graph.inside)
    _warn(outer)
    return _divide([*outer, graph], budget)


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


def _warn(outer: list[Graph]) -> None:
    breaks = [_told(graph.reason) for graph in outer]
    warnings.warn(
        f"rk: the model runs as {len(outer) + 1} graphs, which share the budget by need; this first step "
        f"was begun without knowing that. Broken {'; '.join(breaks)}",
        stacklevel=2,
    )


def _told(reason: Any) -> str:
    """Where and why Dynamo ended a graph."""
    stack = getattr(reason, "user_stack", None) or []
    place = f"at {stack[-1].filename}:{stack[-1].lineno}" if stack else "at an unknown place"
    first = str(getattr(reason, "reason", "")).strip().split("\n")[0]
    return f"{place} ({first})"
