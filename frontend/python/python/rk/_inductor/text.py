"""Units in the dialect rk, at stage ``costed`` (docs/ir.md says what every piece of it means).

A unit is a node around one call, which is named by what it computes. A result that may be written in the
place of an operand is the first one, and the node overwrites that operand; whether it does is the plan's
decision, and Inductor's rule is the judge's: when nobody needs the operand any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import fx

from rk._graph import joint, spelling
from rk._graph.step import Step
from rk._inductor.units import Unit

if TYPE_CHECKING:
    from rk._inductor.halves import Halves


class Text:
    """Spells nodes and runs; ``COST`` stands where the costs go."""

    def __init__(self, step: Step, halves: Halves, *, counts_gradients: bool = False) -> None:
        """``counts_gradients``: those of parameters are values of the step like any other."""
        self.step, self.halves, self.counts_gradients = step, halves, counts_gradients
        self.names: dict[fx.Node, str] = {}
        self.types: dict[fx.Node, str] = {}
        self.symbols: set[str] = set()

    def parts(self) -> tuple[str, list[str]]:
        """The function, and a node per line."""
        arguments = list(self._arguments())
        nodes, runs = [], []
        for place, unit in enumerate(self.halves.lines):
            node, run = self._hand_over(place + 1) if unit is None else self._unit(unit, place + 1)
            nodes.append(node)
            runs.append(run)
        values, types = self._results()
        head = [
            f"func.func @step({', '.join(arguments)})",
            f"    -> ({', '.join(types)}) attributes {{rk.stage = #rk.stage<costed>}} {{",
            *runs,
            f"  return {', '.join(values)} : {', '.join(one.rpartition(' {rk.role')[0] for one in types)}",
            "}",
        ]
        return "\n".join(head), nodes

    def _arguments(self) -> Iterator[str]:
        halves, step = self.halves, self.step
        known = {node.name: node for node in step.placeholders}
        for node in halves.arguments:
            tensor = joint.tensor_of(node)
            if tensor is None:
                continue
            source = known.get(node.name)
            role = "input" if source not in step.static else "buffer"
            if role == "buffer" and str(node.target).startswith("primals") and step.is_trained(source):
                role = "parameter"
            self.names[node], self.types[node] = f"%{node.name}", spelling.type_of(tensor, owner=True)
            marks = ", rk.trainable" if role == "parameter" else ""
            marks += ", rk.lent" if node in halves.lent else ""
            name = spelling.quoted(str(node.target))
            yield f'{self.names[node]}: {self.types[node]} {{rk.role = "{role}", rk.name = {name}{marks}}}'
        yield '%outside: tensor<0xi8> {rk.role = "buffer", rk.name = "outside"}'

    def _unit(self, unit: Unit, line: int) -> tuple[str, str]:
        halves = self.halves
        late = unit in halves.backward.units
        prefix = "b." if late else ""
        operands = [node for node in halves.operands(unit) if node in self.names]
        results, taken = self._order(unit, operands)
        if taken is not None:
            operands.remove(taken)
            operands.insert(0, taken)
        names = [self.names[node] for node in operands]
        types = [self.types[node] for node in operands]
        for node in results:
            self.names[node] = f"%{prefix}{node.name}"
            self.types[node] = _buffer(node, unit.bytes[node])
        made = [self.types[node] for node in results]
        once = halves.runs_once(unit)
        writes, updates = [0] if taken is not None else [], []
        if once or unit.effects:
            names.append("%outside")
            types.append("tensor<0xi8>")
            # A second run of what may run again leaves its updates out.
            (writes if once else updates).append(len(types) - 1)
        label = (results or unit.effects)[0]
        symbol = self._symbol(f"{prefix}{label.name}")
        path = spelling.quoted(joint.module_path(label) or "<root>")
        marks = " once" if once else ""
        marks += " backward" if late else ""
        marks += " overwrites(0)" if taken is not None else ""
        name = f"inductor.u{unit.key()}.default"
        clauses = _clause("writes", writes) + _clause("effects", updates)
        return _node(symbol, marks, name, types, made, clauses, taken, late, path, line), (
            f"  {_bound([self.names[node] for node in results])}"
            f"rk.run @{symbol}({', '.join(names)}) : ({', '.join(types)}) -> {_types(made)}"
        )

    def _order(self, unit: Unit, operands: list[fx.Node]) -> tuple[list[fx.Node], fx.Node | None]:
        """The results, the largest that may be written in the place of an operand first; that operand."""
        halves = self.halves
        best: tuple[fx.Node, fx.Node] | None = None
        for node in sorted(unit.results, key=lambda one: -unit.bytes[one]):
            for taken in unit.takes.get(node, ()):
                base = halves.bases.get(taken, taken)
                if (
                    base in operands
                    and self.types[base] == _buffer(node, unit.bytes[node])
                    and base.op != "placeholder"
                ):
                    best = best or (node, base)
        if best is None:
            return unit.results, None
        return [best[0], *(node for node in unit.results if node is not best[0])], best[1]

    def _symbol(self, name: str) -> str:
        found, number = name, 0
        while found in self.symbols:
            number += 1
            found = f"{name}.{number}"
        self.symbols.add(found)
        return found

    def _hand_over(self, line: int) -> tuple[str, str]:
        halves = self.halves
        given = dict.fromkeys(base for base in halves.forward.bases[: halves.outputs] if base in self.names)
        names = ["%outside", *(self.names[node] for node in given)]
        types = ["tensor<0xi8>", *(self.types[node] for node in given)]
        made = []
        for node in halves.late:
            tensor = joint.tensor_of(node)
            if tensor is not None:
                self.names[node] = f"%{node.name}"
                self.types[node] = _buffer(node, tensor.untyped_storage().nbytes())
                made.append(node)
        symbol = self._symbol("tangents")
        outs = [self.types[node] for node in made]
        writes = _clause("writes", [0])
        node = _node(
            symbol, " once", "rk.tangents.default", types, outs, writes, None, False, '"<root>"', line
        )
        return node, (
            f"  {_bound([self.names[one] for one in made])}"
            f"rk.run @{symbol}({', '.join(names)}) : ({', '.join(types)}) -> {_types(outs)}"
        )

    def _results(self) -> tuple[list[str], list[str]]:
        halves, step = self.halves, self.step
        found: dict[fx.Node, str] = {}

        def give_back(node: fx.Node | None, role: str, name: str, lent: bool = False) -> None:
            node = halves.bases.get(node, node)
            if node not in self.names or node.op == "placeholder" and node in halves.arguments:
                return
            marks = f'rk.role = "{role}", rk.name = {spelling.quoted(name)}{", rk.lent" if lent else ""}'
            if node not in found or role == "gradient":
                found[node] = f"{self.types[node]} {{{marks}}}"

        for place, node in enumerate(halves.forward.bases[: halves.outputs]):
            give_back(node, "output", str(place), node not in halves.checked)
        for node in halves.late:
            give_back(node, "output", str(node.target))
        for place, node in enumerate(halves.backward.bases):
            source = step.placeholders[place] if place < len(step.placeholders) else None
            role = "gradient" if source in step.static and not self.counts_gradients else "output"
            # What forward hands out, or comes in, stays what it is.
            given = halves.bases.get(node, node)
            if given not in found:
                give_back(node, role, str(source.target) if source is not None else f"gradient {place}")
        return [self.names[node] for node in found], list(found.values())


def _buffer(node: fx.Node, size: int) -> str:
    dtype = joint.tensor_of(node).dtype
    element = spelling.ELEMENTS.get(dtype) or spelling.STANDS_FOR[dtype.itemsize]
    return f"tensor<{size // dtype.itemsize}x{element}>"


def _types(made: list[str]) -> str:
    return made[0] if len(made) == 1 else f"({', '.join(made)})"


def _bound(names: list[str]) -> str:
    return f"{', '.join(names)} = " if names else ""


def _clause(name: str, places: list[int]) -> str:
    return f" {name}({', '.join(map(str, places))})" if places else ""


def _node(
    symbol: str,
    marks: str,
    operator: str,
    types: list[str],
    made: list[str],
    clauses: str,
    taken: fx.Node | None,
    late: bool,
    path: str,
    line: int,
) -> str:
    """A node around one call; what it may overwrite is its first argument."""
    arguments = [f"%a{place}" for place in range(len(types))]
    aliases = [0] + [-1] * (len(made) - 1) if taken is not None else []
    clauses += _clause("aliases", aliases)
    clauses += " backward" if late else ""
    results = [f"%r#{place}" for place in range(len(made))] if len(made) > 1 else ["%r"] * len(made)
    if taken is not None:
        results[0] = arguments[0]
    bound = "" if not made else "%r = " if len(made) == 1 else f"%r:{len(made)} = "
    given = f" {', '.join(results)} : {', '.join(made)}" if made else ""
    signature = ", ".join(f"{name}: {one}" for name, one in zip(arguments, types, strict=True))
    return "\n".join(
        [
            f"rk.node @{symbol}{marks} COST {{",
            f"^bb0({signature}):",
            f'  {bound}rk.aten "{operator}"({", ".join(arguments)}){clauses} : ({", ".join(types)}) -> '
            f'{_types(made)} loc({path}("graph":{line}:1))',
            f"  rk.yield{given}",
            "}",
        ]
    )
