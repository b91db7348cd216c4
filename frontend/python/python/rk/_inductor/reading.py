"""Reads units from what Inductor has scheduled.

A unit is one node of Inductor's scheduler, joined with others where they only make sense together:

1. What makes a buffer that stays in memory but is no value of the graph (the stages of a split reduction, a
   sum inside of ``mean``, the tuple that an extern kernel returns) is joined with its readers.
2. What overwrites a buffer is joined with what made it.
3. The parts of a concatenation lie inside of its buffer, and are joined with it.

A kernel that returns a view of its operand (``view_as_real``) makes no buffer and is no unit: who reads the
view reads the operand, and has the call in its own body.

Where units need each other then, the fused kernels among them are taken apart again. Values inside of a
kernel do not exist, and what Inductor computes again inside of a reader is part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch._inductor import ir
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
    OutputNode,
    SchedulerNode,
)

from rk._graph import joint, spelling
from rk._graph.copies import copied
from rk._inductor import lowering, operations
from rk._inductor.buffers import Buffers
from rk._inductor.units import Circle, Lowered, Unit, in_order
from rk.errors import CompileError


def lowered(gm: fx.GraphModule, visible: int, *, is_backward: bool) -> Lowered:
    """Reads the units of a graph, which is left alone."""
    own = copied(gm)
    with lowering.scheduled(own, visible, is_backward=is_backward) as graph:
        return _Reader(own, graph).read()


class _Reader:
    def __init__(self, gm: fx.GraphModule, graph: Any) -> None:
        self.gm, self.graph, self.scheduler = gm, graph, graph.scheduler
        self.kernels: list[BaseSchedulerNode] = list(self.scheduler.nodes)
        self.buffers = Buffers(gm, graph, self.kernels)

    def read(self) -> Lowered:
        while True:
            try:
                return self._read()
            except Circle as circle:
                if not self._split(circle.units):
                    raise

    def _split(self, units: list[Unit]) -> bool:
        """Takes kernels of units apart that need each other: what Inductor has fused only for being of one
        size may belong to different places. Returns whether there was anything to take apart.
        """
        apart = {place for unit in units for place in self.members[unit]}
        before = self.kernels
        self.kernels = [
            one
            for place, kernel in enumerate(before)
            for one in (kernel.get_nodes() if place in apart else [kernel])
        ]
        return len(self.kernels) > len(before)

    def _read(self) -> Lowered:
        self.holder = {
            one.get_name(): place for place, kernel in enumerate(self.kernels) for one in kernel.get_nodes()
        }
        units, self.maker, self.members = [], {}, {}
        for members in self._joined():
            unit = self._unit(members)
            units.append(unit)
            self.members[unit] = members
            self.maker.update(dict.fromkeys(unit.results, unit))
        for unit in units:
            self._fill(unit)
        self._check_effects(units)
        outputs = lowering.outputs_of(self.gm)
        bases = [self.buffers.base(one) for one in self.graph.graph_outputs]
        strides = [
            lowering.strides_of(one, value)
            for one, value in zip(self.graph.graph_outputs, map(joint.tensor_of, outputs), strict=True)
        ]
        return Lowered(self.gm, in_order(units), outputs, bases, strides, self.graph.layout_opt)

    def _check_effects(self, units: list[Unit]) -> None:
        """Raises CompileError if something that is overwritten would not be, or would be too early."""
        inside = {node for unit in units for node in unit.body}
        for node in self.gm.graph.nodes:
            if joint.is_call(node) and spelling.written(node) and node not in inside:
                if node.target is torch.ops.aten.copy_.default and node.args[0] is node.args[1]:
                    # An operator has written the argument itself.
                    continue
                raise CompileError(f"no kernel of Inductor's is known to be {node.target}")
        written = {
            self.buffers.memory(name)
            for kernel in self.kernels
            if any(map(self._effects, kernel.get_nodes()))
            for buffer in kernel.get_outputs()
            for name in buffer.get_mutations()
        }
        for kernel in self.kernels:
            if not any(buffer.get_mutations() for buffer in kernel.get_outputs()):
                for read in kernel.read_writes.reads:
                    # A buffer has another name after it was written.
                    if read.name in written and (node := self.buffers.value_of.get(read.name)) is not None:
                        raise CompileError(f"{node} is read, and then overwritten")

    # Which kernels belong together.

    def _joined(self) -> list[list[int]]:
        group = list(range(len(self.kernels)))

        def find(place: int) -> int:
            while group[place] != place:
                group[place] = group[group[place]]
                place = group[place]
            return place

        makers = {
            buffer.get_name(): place
            for place, kernel in enumerate(self.kernels)
            for buffer in kernel.get_outputs()
        }
        for place, kernel in enumerate(self.kernels):
            for buffer in kernel.get_outputs():
                for name in map(self.buffers.memory, buffer.get_mutations()):
                    if name in makers:
                        group[find(place)] = find(makers[name])
                if self.buffers.value(buffer.get_name()) is not None or self._is_inside(buffer, [kernel]):
                    continue
                readers = self._readers(buffer)
                whole = [one for one in readers if isinstance(self.kernels[one], NopKernelSchedulerNode)]
                if isinstance(buffer.node.get_output_spec(), ir.NonOwningLayout) and whole:
                    # Of a part of a concatenation, whoever reads the whole counts as a reader, too.
                    readers = whole
                for reader in readers:
                    group[find(place)] = find(reader)
        members: dict[int, list[int]] = {}
        for place, kernel in enumerate(self.kernels):
            outputs = kernel.get_outputs()
            if not outputs or any(one.get_name() not in self.buffers.views for one in outputs):
                members.setdefault(find(place), []).append(place)
        return sorted(members.values(), key=max)

    def _is_inside(self, buffer: Any, kernels: Iterable[BaseSchedulerNode]) -> bool:
        """Whether nobody but these kernels reads a buffer."""
        names = {one.get_name() for kernel in kernels for one in kernel.get_nodes()}
        return self.scheduler.can_buffer_be_removed_through_fusion(buffer.get_name(), names)

    # What a unit is.

    def _unit(self, members: list[int]) -> Unit:
        unit, kernels = Unit(), [self.kernels[place] for place in members]
        inner = _Inner()
        for kernel in kernels:
            unit.moved += _moved(kernel)
            unit.work += operations.nanoseconds(kernel)
            unit.kernels += not isinstance(kernel, (ExternKernelSchedulerNode, NopKernelSchedulerNode))
            if isinstance(kernel, ExternKernelSchedulerNode) and not isinstance(kernel.node, ir.MultiOutput):
                called = lowering.extern(kernel.node)
                unit.externs += [called] if called is not None else []
            for one in kernel.get_nodes():
                unit.effects += self._effects(one)
            for buffer in kernel.get_outputs():
                if self._is_inside(buffer, [kernel]):
                    continue
                name, size = buffer.get_name(), lowering.bytes_of(buffer.node)
                node = self.buffers.value_of.get(name)
                last = self._last(buffer, members)
                if not isinstance(kernel, (ExternKernelSchedulerNode, NopKernelSchedulerNode)):
                    unit.work += operations.of_mask(buffer.node)
                if node is not None and not self._is_inside(buffer, kernels):
                    unit.results.append(node)
                    unit.bytes[node] = size
                    strides = lowering.strides_of(buffer.node, joint.tensor_of(node))
                    if self.graph.layout_opt and strides is not None and len(strides) == lowering.IMAGES:
                        unit.strides[node] = strides
                    last = None
                if isinstance(buffer.node.get_output_spec(), ir.MultiOutputLayout):
                    self._tuple(buffer, kernels, members, inner)
                elif not isinstance(buffer.node, ir.MultiOutput):
                    inner.made(name, size, last, self._takes(kernel, name))
            inner.ran()
            self._in_place(kernel, unit)
        unit.effects = list(dict.fromkeys(unit.effects))
        unit.workspace = inner.most - sum(unit.bytes.values())
        return unit

    def _readers(self, buffer: Any) -> list[int]:
        """The places of the kernels that read a buffer."""
        users = (user.node for user in buffer.users if not isinstance(user.node, OutputNode))
        return [self.holder[user.get_name()] for user in users if user.get_name() in self.holder]

    def _last(self, buffer: Any, members: list[int]) -> int:
        """The last kernel of a unit that reads a buffer."""
        return max((members.index(place) for place in self._readers(buffer) if place in members), default=0)

    def _tuple(
        self, buffer: Any, kernels: list[BaseSchedulerNode], members: list[int], inner: _Inner
    ) -> None:
        """All results of an extern kernel are there when it returns, and those that nobody picks until all
        others are picked.
        """
        users = [user.node for user in buffer.users if not isinstance(user.node, OutputNode)]
        last = self._last(buffer, members)
        picked = {one.get_name(): one for user in users for one in user.get_outputs()}
        for name, size in lowering.tuple_parts(buffer.node, users):
            leaves = name in picked and not self._is_inside(picked[name], kernels)
            inner.made(name, size, None if leaves else last)

    def _effects(self, kernel: BaseSchedulerNode) -> list[fx.Node]:
        found = []
        for buffer in kernel.get_outputs():
            if buffer.get_mutations():
                nodes = [one for one in kernel.node.get_origins() if one in self.buffers.places]
                found += [one for one in nodes if spelling.written(one)]
        return found

    def _in_place(self, kernel: BaseSchedulerNode, unit: Unit) -> None:
        for buffer in kernel.get_outputs():
            node = self.buffers.value_of.get(buffer.get_name())
            if node in unit.bytes:
                takes = map(self.buffers.value, self._takes(kernel, buffer.get_name()))
                unit.takes[node] = [taken for taken in takes if taken is not None]

    def _takes(self, kernel: BaseSchedulerNode, name: str) -> list[str]:
        """The buffers in whose place a result may be written, if they are not needed any more."""
        return [
            read.name
            for one in kernel.get_nodes()
            if isinstance(one, SchedulerNode) and name in one.get_buffer_names()
            for read in one.read_writes.reads
            if _may_take(kernel, one, read)
        ]

    def _fill(self, unit: Unit) -> None:
        """Body and operands: what lies between the results and the values of others."""
        inside: set[fx.Node] = set()
        operands: dict[fx.Node, None] = {}
        ahead = [*unit.results, *unit.effects]
        while ahead:
            node = ahead.pop()
            if node in inside:
                continue
            inside.add(node)
            for source in node.all_input_nodes:
                if source.op == "placeholder" or self.maker.get(source, unit) is not unit:
                    operands[source] = None
                else:
                    ahead.append(source)
        unit.body = sorted(inside, key=self.buffers.places.__getitem__)
        unit.operands = sorted(operands, key=self.buffers.places.__getitem__)


class _Inner:
    """Adds up what is in memory while the kernels of a unit run, beside its operands."""

    def __init__(self) -> None:
        self.most = self.live = self.place = 0
        self._ends: dict[str, tuple[int, int]] = {}

    def made(self, name: str, size: int, last: int | None, takes: Iterable[str] = ()) -> None:
        """A buffer that the kernels up to number ``last`` of the unit need, or others; it is written in the
        place of one of ``takes`` that nobody needs any more.
        """
        dying = (one for one in takes if self._ends.get(one) == (size, self.place))
        taken = next(dying, None)
        if taken is None:
            self.live += size
        else:
            del self._ends[taken]
        if last is not None:
            self._ends[name] = size, last

    def ran(self) -> None:
        self.most = max(self.most, self.live)
        for name, (size, last) in list(self._ends.items()):
            if last == self.place:
                self.live -= size
                del self._ends[name]
        self.place += 1


def _may_take(kernel: BaseSchedulerNode, node: SchedulerNode, read: Any) -> bool:
    """Whether a node may write over what it reads: where it reads it, and when its kernel does not read it
    otherwise.
    """
    if not node.can_inplace(read):
        return False
    readers = [
        (one, dep)
        for one in kernel.get_nodes()
        for dep in one.read_writes.reads_and_writes()
        if dep.name == read.name
    ]
    others = {one for one, _ in readers if one is not node and one.get_name() not in node.ancestors}
    return len({dep for _, dep in readers}) == 1 and not others


def _moved(kernel: BaseSchedulerNode) -> int:
    if isinstance(kernel, (ExternKernelSchedulerNode, NopKernelSchedulerNode)):
        return 0
    return int(kernel.get_read_write_buffers_sizes())
