"""A plan's runs, written back as the two graphs that Inductor compiles.

A run is a copy of its unit's body, and its nodes bear the number of the run: kernels are fused inside of a
run only, and come in the order of the runs (:mod:`.pinning`). What a run leaves in memory is marked to be
made there, in the strides that PyTorch's tracing says, so that a second run is the same kernel. Only results
that somebody reads are written. Forward hands backward one tensor for each buffer, and whoever reads a view
of it writes the view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from torch import fx
from torch.fx.node import map_arg

from rk._graph import joint, loans
from rk._inductor import lowering
from rk._inductor.problem import Halves
from rk._inductor.units import Unit

RUN = "rk_run"
"""The mark of a node: the number of its run."""
REALIZE = "inductor_realize_to_strides"
"""Inductor's own mark: in memory, in the strides of the traced value."""


@dataclasses.dataclass(eq=False)
class Run:
    """One run of a unit."""

    unit: Unit
    again: bool
    wanted: list[fx.Node] = dataclasses.field(default_factory=list)
    """The results that somebody reads."""


class Writer:
    """Writes a schedule; read :attr:`forward` and :attr:`backward` afterwards."""

    def __init__(self, halves: Halves, schedule: Sequence[tuple[int, bool]]) -> None:
        """``schedule`` is a list of lines, each with whether it is a second run."""
        self.halves = halves
        self.maker = {node: unit for unit in halves.lines if unit is not None for node in unit.results}
        self.runs, self.cut = self._runs(schedule)
        self._want()
        self.graph = fx.Graph()
        self.now: dict[fx.Node, fx.Node] = {}
        """Per value, its newest instance in the graph that is being written, or in forward."""
        self.carried: dict[fx.Node, fx.Node] = {}
        """Per instance in forward that backward reads, the argument of backward."""
        for node in halves.arguments:
            self.now[node] = self._copy(node, "placeholder", node.target, (), {})
        for number, run in enumerate(self.runs):
            if number == self.cut:
                self._hand_over()
            self._write(run, number)
        self._finish()

    def modules(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The graphs as modules."""
        forward, backward = self.halves.forward, self.halves.backward
        return fx.GraphModule(forward.gm, self.forward), fx.GraphModule(backward.gm, self.backward)

    # Which results are wanted.

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
            for node in self._body(run)[1]:
                ahead.add(self._read(run, number, node))
        if self.cut == 0:
            ahead.update(halves.forward.bases[: halves.outputs])

    def _read(self, run: Run, number: int, node: fx.Node) -> fx.Node:
        """The value that a run reads for an operand: the base of a view; late, the copy of what is lent."""
        base = self.halves.bases.get(node, node)
        copy = self.halves.copies.get(base)
        if copy is not None and copy is not run.unit and number >= self.cut and run.unit not in self._late:
            return copy.results[0]
        return base

    @property
    def _late(self) -> set[Unit]:
        return self.halves.late_units

    def _body(self, run: Run) -> tuple[list[fx.Node], list[fx.Node]]:
        """The nodes that make what is wanted of a run, and what these read."""
        return run.unit.part([*run.wanted, *(() if run.again else run.unit.effects)])

    # What is written.

    def _write(self, run: Run, number: int) -> None:
        body, read = self._body(run)
        local: dict[fx.Node, fx.Node] = {}
        for node in read:
            local[node] = self._operand(run, number, node)
        wanted = set(run.wanted)
        for node in body:
            args, kwargs = map_arg((node.args, node.kwargs), local.__getitem__)
            made = local[node] = self._copy(node, node.op, node.target, args, kwargs)
            made.meta[RUN] = number
            if node in wanted and not _is_view(node):
                strides = run.unit.strides.get(node)
                if strides is not None:
                    args = (made, strides)
                    made = local[node] = self._copy(node, "call_function", lowering.LAY_OUT, args, {})
                    made.meta[RUN] = number
                made.meta[REALIZE] = True
        self.now.update((node, local[node]) for node in run.wanted)

    def _operand(self, run: Run, number: int, node: fx.Node) -> fx.Node:
        base = self._read(run, number, node)
        instance = self._here(base)
        shown = self.halves.shown.get(node)
        if shown is None or shown is base or base is not self.halves.bases.get(node):
            return instance
        return self._view(shown, base, instance, number)

    def _view(self, node: fx.Node, base: fx.Node, instance: fx.Node, number: int) -> fx.Node:
        """A view that forward has of a buffer, written of an instance of it."""
        if node is base:
            return instance
        if node.op == "get_attr":
            return self._copy(node, "get_attr", node.target, (), {})
        args, kwargs = map_arg(
            (node.args, node.kwargs), lambda source: self._view(source, base, instance, number)
        )
        made = self._copy(node, node.op, node.target, args, kwargs)
        made.meta[RUN] = number
        return made

    def _here(self, node: fx.Node) -> fx.Node:
        """The newest instance of a value in the graph that is being written."""
        instance = self.now[node]
        if instance.graph is self.graph:
            return instance
        carried = self.carried.get(instance)
        if carried is None:
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                carried = self._copy(instance, "placeholder", instance.name, (), {})
            carried.target = carried.name
            carried.meta[loans.UNCHECKED] = node in self.halves.unchecked
            carried.meta.pop(RUN, None)
            carried.meta.pop(REALIZE, None)
            self.carried[instance] = carried
        return carried

    def _copy(self, node: fx.Node, op: str, target: Any, args: Any, kwargs: Any) -> fx.Node:
        made = self.graph.create_node(op, target, args, kwargs, name=node.name)
        made.meta.update(node.meta)
        return made

    def _hand_over(self) -> None:
        self.handed_out = self._given(
            self.halves.forward.outputs[: self.halves.outputs], self.halves.forward.bases
        )
        self.forward, self.graph = self.graph, fx.Graph()
        for node in self.halves.late:
            self.now[node] = self._copy(node, "placeholder", node.target, (), {})

    def _given(self, outputs: Iterable[Any], bases: Sequence[fx.Node | None]) -> list[Any]:
        """What a graph returns: views of the instances that are there."""
        given = []
        number = max(len([run for run in self.runs]) - 1, 0)
        for one, base in zip(outputs, bases, strict=False):
            if not isinstance(one, fx.Node) or base is None:
                given.append(one)
                continue
            instance = self._here(self.halves.bases.get(base, base))
            shown = self.halves.shown.get(base)
            if shown is not None:
                instance = self._view(shown, self.halves.bases[base], instance, number)
            given.append(self._view(one, base, instance, number))
        return given

    def _finish(self) -> None:
        if not hasattr(self, "forward"):
            self._hand_over()
        halves = self.halves
        self.backward = self.graph
        given = self._given(halves.backward.outputs, halves.backward.bases)
        self._sort_carried()
        self.backward.output(tuple(given))
        self.forward.output((*self.handed_out, *self.carried))

    def _sort_carried(self) -> None:
        """Inputs of the backward graph in the order of the forward's outputs; those without version check
        come last.
        """
        pairs = sorted(self.carried.items(), key=lambda pair: pair[1].meta[loans.UNCHECKED])
        self.carried = dict(pairs)
        for instance, carried in pairs:
            instance.meta[loans.UNCHECKED] = carried.meta[loans.UNCHECKED]
        for carried in reversed(self.carried.values()):
            next(iter(self.backward.nodes)).prepend(carried)


def _is_view(node: fx.Node) -> bool:
    """Whether the traced value lies in the memory of an operand; Inductor makes it one that it copies."""
    value = joint.tensor_of(node)
    sources = (joint.tensor_of(source) for source in node.all_input_nodes)
    storages = {joint.storage_of(one) for one in sources if one is not None}
    return value is None or joint.storage_of(value) in storages
