"""What a plan takes once it is written: the bytes that are in memory while its runs follow each other.

The planner counts every result of a run. Written, a run makes only what somebody reads (:mod:`.runs`), and
each of its results may be written in the place of an operand that nobody needs any more, where Inductor's
rule allows it: this is what Inductor's code will add up to (:mod:`.replay`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from torch import fx

from rk._graph import joint
from rk._inductor.runs import Run, Runs
from rk._inductor.units import Unit


@dataclasses.dataclass(eq=False)
class Value:
    """A value that one run makes, and that lives until another one has read it."""

    node: fx.Node
    size: int
    end: float
    counts: bool = True
    """False for gradients of parameters, which a budget leaves out; in whose place they are, as well."""
    place: Value | None = None
    """In whose memory it is written."""


class Living:
    """The values of a plan's runs, from when they are made until nobody reads them any more."""

    def __init__(self, runs: Runs, workspaces: Mapping[Unit, int], alignment: int) -> None:
        """``workspaces`` say what a unit needs besides its results; the allocator rounds to ``alignment``."""
        self.runs, self.workspaces, self.alignment = runs, workspaces, alignment
        self.made: list[list[Value]] = []
        """Per run, what it makes; last, what comes in with the hand-over."""
        self.read: list[list[Value]] = []
        """Per run, what it reads."""
        self._follow()

    def peak(self, inside: int, uncounted: Iterable[int], *, glued: bool = False) -> int:
        """The most bytes, when the caller needs ``inside`` at the hand-over. ``uncounted`` are the results
        of backward that no budget counts. ``glued``: as Inductor does by itself on a CPU, what is dead is
        given back before the next kernel that is not Inductor's own, and not before.
        """
        bases = self.runs.halves.backward.bases
        for place in uncounted:
            if place < len(bases) and (value := self._now.get(self._base(bases[place]))) is not None:
                value.counts = False
        self._put_in_place()
        most = live = dead = 0
        for number, run in enumerate(self.runs.runs):
            if number == self.runs.cut:
                live, dead = live - dead + self._bytes(self.late), 0
                most = max(most, live + inside)
            if run.unit.externs or not glued:
                live, dead = live - dead, 0
            live += self._bytes(one for one in self.made[number] if one.place is None)
            most = max(most, live + self._workspace(run))
            dead += self._bytes(one for one in self._ending(number) if one not in self._taken)
        return max(most, live)

    def _base(self, node: fx.Node | None) -> fx.Node | None:
        return self.runs.halves.bases.get(node, node)

    def _follow(self) -> None:
        halves, runs = self.runs.halves, self.runs
        self._now: dict[fx.Node | None, Value] = {}
        self.late: list[Value] = []
        for number, run in enumerate(runs.runs):
            if number == runs.cut:
                self._hand_over()
            read = (self._now.get(runs.read(run, number, node)) for node in runs.body(run)[1])
            self.read.append(list(dict.fromkeys(one for one in read if one is not None)))
            for value in self.read[-1]:
                value.end = max(value.end, number)
            sizes = run.unit.bytes
            self.made.append([Value(node, self._rounded(sizes[node]), number) for node in run.wanted])
            self._now.update((value.node, value) for value in self.made[-1])
        if runs.cut >= len(runs.runs):
            self._hand_over()
        for base in halves.backward.bases:
            if (value := self._now.get(self._base(base))) is not None:
                value.end = math.inf

    def _hand_over(self) -> None:
        halves = self.runs.halves
        for base in halves.forward.bases[: halves.outputs]:
            if base in self._now:
                self._now[base].end = math.inf
        for node in halves.late:
            tensor = joint.tensor_of(node)
            if tensor is not None:
                size = self._rounded(tensor.untyped_storage().nbytes())
                self._now[node] = value = Value(node, size, math.inf)
                self.late.append(value)

    def _put_in_place(self) -> None:
        self._taken: set[Value] = set()
        for number, run in enumerate(self.runs.runs):
            ending = {one.node: one for one in self.read[number] if one.end == number}
            for value in self.made[number]:
                for node in run.unit.takes.get(value.node, ()):
                    operand = ending.get(self.runs.read(run, number, node))
                    if operand is not None and operand not in self._taken and _alike(value, operand):
                        value.place = operand
                        self._taken.add(operand)
                        break
        for value in reversed([one for made in self.made for one in made]):
            if value.place is not None:
                value.place.counts &= value.counts
        for made in self.made:
            for value in made:
                if value.place is not None:
                    value.counts = value.place.counts

    def _ending(self, number: int) -> list[Value]:
        return [one for one in dict.fromkeys([*self.read[number], *self.made[number]]) if one.end == number]

    def _workspace(self, run: Run) -> int:
        """What a run needs besides what is wanted of it."""
        unit = run.unit
        left_out = set(unit.results) - set(run.wanted)
        if not left_out or unit.kernels == 1 and not unit.externs:
            return self.workspaces[unit]
        # A kernel of the unit may have to make it for the next one.
        left_out &= set(self.runs.body(run)[0])
        return self.workspaces[unit] + sum(self._rounded(unit.bytes[node]) for node in left_out)

    def _bytes(self, values: Iterable[Value]) -> int:
        return sum(one.size for one in values if one.counts)

    def _rounded(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment


def _alike(value: Value, operand: Value) -> bool:
    kinds = (joint.tensor_of(one.node).dtype for one in (value, operand))
    return value.size == operand.size and len(set(kinds)) == 1
