"""Units: the kernels that Inductor makes of a graph, as operators for the planner.

They are plain data, nodes of the graph after Inductor's passes and bytes, read by :mod:`.reading`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

from torch import fx

from rk._graph import joint
from rk._inductor.lowering import Extern
from rk.errors import CompileError


@dataclasses.dataclass(eq=False)
class Unit:
    """One kernel, or several that belong together."""

    results: list[fx.Node] = dataclasses.field(default_factory=list)
    """The values that it leaves in memory."""
    operands: list[fx.Node] = dataclasses.field(default_factory=list)
    """Values of other units and arguments of the graph."""
    body: list[fx.Node] = dataclasses.field(default_factory=list)
    """The nodes between operands and results, in order."""
    effects: list[fx.Node] = dataclasses.field(default_factory=list)
    """What it is run for besides its results: updates of arguments."""
    bytes: dict[fx.Node, int] = dataclasses.field(default_factory=dict)
    """Of every result."""
    strides: dict[fx.Node, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Of the results that Inductor lays out as it likes."""
    workspace: int = 0
    """The most bytes that its own kernels leave to each other, beyond its results."""
    takes: dict[fx.Node, list[fx.Node]] = dataclasses.field(default_factory=dict)
    """Per result, the operands in whose place it is written if they are not needed any more."""
    externs: list[Extern] = dataclasses.field(default_factory=list)
    """The kernels that are not Inductor's own."""
    moved: int = 0
    """The bytes that Inductor's own kernels read and write."""
    kernels: int = 0
    """How many of its kernels are Inductor's own."""
    work: float = 0.0
    """The nanoseconds that a thread takes for what these compute (:mod:`.operations`)."""

    def part(self, roots: Iterable[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
        """The nodes of the body that some results or effects are made by, in order, and what these read."""
        inside, kept, read = set(self.body), set[fx.Node](), dict[fx.Node, None]()
        ahead = list(roots)
        while ahead:
            node = ahead.pop()
            if node not in kept:
                kept.add(node)
                for source in node.all_input_nodes:
                    if source in inside:
                        ahead.append(source)
                    else:
                        read[source] = None
        return [node for node in self.body if node in kept], list(read)

    def key(self) -> str:
        """A hash of the body without names: units of one key have the same kernels."""
        names = {node: f"%{place}" for place, node in enumerate((*self.operands, *self.body))}
        about = [_shape(node) for node in self.operands]
        for node in self.body:
            args = fx.node.map_arg((node.args, node.kwargs), lambda one: _Name(names[one]))
            about.append(f"{node.op} {node.target} {args} {_shape(node)}")
        about.append(str([(names[node], self.strides.get(node)) for node in (*self.results, *self.effects)]))
        return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        """The values, for people."""
        return f"{[node.name for node in self.results]} <- {[node.name for node in self.operands]}"


class _Name(str):
    __repr__ = str.__str__


def _shape(node: fx.Node) -> str:
    found = [
        f"{one.dtype}{list(one.shape)}{list(one.stride())}{one.device}" if one is not None else "none"
        for one in joint.results_of(node)
    ]
    return " ".join(found)


@dataclasses.dataclass
class Lowered:
    """A graph as units, in Inductor's order of execution."""

    gm: fx.GraphModule
    """The graph after Inductor's passes."""
    units: list[Unit]
    outputs: list[Any]
    """What the graph returns, by place: a node of it, or a constant."""
    bases: list[fx.Node | None]
    """Per output, the value or argument whose memory it lies in."""
    strides: list[tuple[int, ...] | None]
    """Per output, how it lies there."""
    layout: bool
    """Whether Inductor lays convolutions out anew."""


class Circle(CompileError):
    """Units need each other."""

    def __init__(self, units: list[Unit]) -> None:
        """``units`` are those of the circle, in order."""
        super().__init__(f"Inductor's kernels for {units[0]} and {units[-1]} need each other")
        self.units = units


def in_order(units: list[Unit]) -> list[Unit]:
    """Each after those whose values it reads, otherwise as they are: Inductor picks results late, so the last
    kernel of a unit may come after its readers.
    """
    maker = {node: unit for unit in units for node in unit.results}
    done: dict[Unit, bool] = {}
    order: list[Unit] = []
    for root in units:
        stack = [(root, iter(root.operands))] if root not in done else []
        if stack:
            done[root] = False
        while stack:
            unit, sources = stack[-1]
            source = next((one for one in sources if one in maker and done.get(maker[one]) is not True), None)
            if source is None:
                done[unit] = True
                order.append(unit)
                stack.pop()
            elif maker[source] in done:
                raise Circle([one for one, _ in stack])
            else:
                done[maker[source]] = False
                stack.append((maker[source], iter(maker[source].operands)))
    return order
