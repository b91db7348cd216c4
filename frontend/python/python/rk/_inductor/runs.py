"""A plan as runs of units: which of their results somebody reads, and what they read themselves.

Of a unit with several results, only those are made that a later run reads, or that leave the step, and only
what these are made of is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torch import fx

from rk._inductor.halves import Halves
from rk._inductor.units import Unit


@dataclasses.dataclass(eq=False)
class Run:
    """One run of a unit."""

    unit: Unit
    again: bool
    wanted: list[fx.Node] = dataclasses.field(default_factory=list)
    """The results that somebody reads."""


class Runs:
    """The runs of a schedule."""

    def __init__(self, halves: Halves, schedule: Sequence[tuple[int, bool]]) -> None:
        """``schedule`` is a list of lines, each with whether it is a second run."""
        self.halves = halves
        self.runs, self.cut = self._runs(schedule)
        """In order; how many are before the hand-over."""
        self._want()

    def _runs(self, schedule: Sequence[tuple[int, bool]]) -> tuple[list[Run], int]:
        runs: list[Run] = []
        cut = None
        for line, again in schedule:
            unit = self.halves.lines[line - 1]
            if unit is None:
                cut = len(runs)
            else:
                runs.append(Run(unit, again))
        return runs, len(runs) if cut is None else cut

    def _want(self) -> None:
        """Backwards through the runs: what a later one reads, or what leaves the step."""
        halves = self.halves
        ahead = {halves.bases.get(base, base) for base in halves.backward.bases}
        for number in reversed(range(len(self.runs))):
            if number == self.cut - 1:
                ahead.update(halves.forward.bases[: halves.outputs])
            run = self.runs[number]
            run.wanted = [node for node in run.unit.results if node in ahead]
            ahead.difference_update(run.unit.results)
            for node in self.body(run)[1]:
                ahead.add(self.read(run, number, node))
        if self.cut == 0:
            ahead.update(halves.forward.bases[: halves.outputs])

    def read(self, run: Run, number: int, node: fx.Node) -> fx.Node:
        """The value that a run reads for an operand: the base of a view; late, the copy of what is lent."""
        base = self.halves.bases.get(node, node)
        copy = self.halves.copies.get(base)
        is_late = number >= self.cut and run.unit not in self.halves.late_units
        return copy.results[0] if copy is not None and copy is not run.unit and is_late else base

    def body(self, run: Run) -> tuple[list[fx.Node], list[fx.Node]]:
        """The nodes that make what is wanted of a run, and what these read."""
        return run.unit.part([*run.wanted, *(() if run.again else run.unit.effects)])
