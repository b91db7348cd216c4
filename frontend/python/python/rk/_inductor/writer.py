"""A plan's runs, written back as the two graphs that Inductor compiles.

A run is a copy of its unit's body, and its nodes bear the number of the run: kernels are fused inside of a
run only, and come in the order of the runs (:mod:`.pinning`). What a run leaves in memory is marked to be
made there, in the strides that PyTorch's tracing says, so that a second run is the same kernel. Forward hands
backward one tensor for each buffer, and whoever reads a view of it writes the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import fx
from torch.fx.node import map_arg

from rk._graph import joint, loans
from rk._inductor import lowering
from rk._inductor.halves import Halves
from rk._inductor.runs import Run, Runs

RUN = "rk_run"
"""The mark of a node: the number of its run."""
REALIZE = "inductor_realize_to_strides"
"""Inductor's own mark: in memory, in the strides of the traced value."""


class Writer:
    """Writes a schedule; read :attr:`forward` and :attr:`backward` afterwards."""

    def __init__(self, halves: Halves, schedule: Sequence[tuple[int, bool]]) -> None:
        """``schedule`` is a list of lines, each with whether it is a second run."""
        self.halves = halves
        self._schedule = plan = Runs(halves, schedule)
        self.runs, self.cut = plan.runs, plan.cut
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

    # What is written.

    def _write(self, run: Run, number: int) -> None:
        body, read = self._schedule.body(run)
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
        base = self._schedule.read(run, number, node)
        instance = self._here(base)
        shown = self.halves.shown.get(node)
        if shown is None or shown is base or base is not self.halves.bases.get(node):
            return instance
        return self._view(shown, base, instance, number)

    def _view(self, node: fx.Node, base: fx.Node, instance: fx.Node, number: int) -> fx.Node:
        """A view that forward has of a buffer, written of an instance of it."""
        if node is base or _is_same(base, node):
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
        """Inputs of the backward graph in the order of the forward's outputs, which is AOTAutograd's: tensors
        with version check, those without, objects.
        """

        def rank(pair: tuple[fx.Node, fx.Node]) -> tuple[bool, bool]:
            return joint.is_opaque(pair[0]), pair[1].meta[loans.UNCHECKED]

        pairs = sorted(self.carried.items(), key=rank)
        self.carried = dict(pairs)
        for instance, carried in pairs:
            instance.meta[loans.UNCHECKED] = carried.meta[loans.UNCHECKED]
        for carried in reversed(self.carried.values()):
            next(iter(self.backward.nodes)).prepend(carried)


def _is_same(view: fx.Node, node: fx.Node) -> bool:
    """Whether a node is made of another by views that change nothing, such as an expansion to the sizes that
    are there: Inductor has one buffer for both, which it may call by the view.
    """
    traced = joint.tensor_of(node)
    while view is not node:
        value, is_view = joint.tensor_of(view), getattr(view.target, "is_view", False)
        if not is_view or len(view.all_input_nodes) != 1 or traced is None or value is None:
            return False
        if (value.shape, value.stride()) != (traced.shape, traced.stride()):
            return False
        view = view.all_input_nodes[0]
    return True


def _is_view(node: fx.Node) -> bool:
    """Whether the traced value lies in the memory of an operand; Inductor makes it one that it copies."""
    value = joint.tensor_of(node)
    sources = (joint.tensor_of(source) for source in node.all_input_nodes)
    storages = {joint.storage_of(one) for one in sources if one is not None}
    return value is None or joint.storage_of(value) in storages
