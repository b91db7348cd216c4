"""A joint graph of AOTAutograd as a step of the dialect rk, at stage raw (docs/ir.md says what every piece
of it means).

The number of its line (:mod:`rk._graph.step`) is in the location of every call, and so a schedule comes back
as a list of lines.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from rk._graph import joint, spelling
from rk._graph.repetition import Manner, manner_of
from rk._graph.step import Step
from rk.errors import CompileError

TANGENTS = "rk.tangents.default"


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one call takes."""

    nanoseconds: int
    workspace: int
    held: tuple[int, ...] = ()
    """Bytes of the storages of the results, if one is longer than PyTorch's tracing says."""


@dataclasses.dataclass
class Call:
    """One line of the text."""

    node: fx.Node | None
    """The node of the graph; None for ``rk.tangents``."""
    name: str
    arguments: list[str]
    types: list[str]
    """The types of the operands, in the order in which they stand among the arguments."""
    made: list[str]
    """The types of the results."""
    clauses: str
    is_view: bool
    line: int
    gradients: tuple[int, ...] = ()
    """Which results are gradients of parameters, whose storage the budget does not count."""

    @functools.cached_property
    def signature(self) -> str:
        """The call without names: calls of one signature cost the same."""
        if self.node is None:
            return TANGENTS
        types = iter(self.types)
        anonymous = re.sub(r"%[^], ]+", lambda _: next(types), ", ".join(self.arguments))
        apart = f" gradients{self.gradients}" if self.gradients else ""
        return f"{self.name}({anonymous}) -> {spelling.types(self.made)}{apart}"

    def text(self, cost: Cost | None) -> str:
        """The line, with the cost if it is known."""
        label = "tangents" if self.node is None else self.node.name
        label = label if len(self.made) == 1 else f"{label}:{len(self.made)}"
        path = joint.module_path(self.node) if self.node is not None else ""
        known = "" if cost is None else f" cost <{cost.nanoseconds} ns, workspace {cost.workspace} B>"
        return (
            f'  %{label} = rk.aten "{self.name}"({", ".join(self.arguments)}){self.clauses}{known}'
            f" : ({', '.join(self.types)}) -> {spelling.types(self.made)}"
            f' loc({spelling.quoted(path or "<root>")}("graph":{self.line}:1))'
        )


class Text:
    """The calls of a step, spelled; with costs, the module."""

    def __init__(self, step: Step, *, leaves: bool = False, counts_gradients: bool = False) -> None:
        """Spells all but the costs. ``leaves``: every result lies in storage of the caller's, and has no
        place among the step's values; all of them get the role ``gradient``. ``counts_gradients``: those of
        parameters are values of the step like any other, from the call that makes them to its end.
        """
        self.step, self.leaves, self.counts_gradients = step, leaves, counts_gradients
        self.calls: list[Call] = []
        self.arguments: list[str] = []
        self._names: dict[fx.Node, str] = {}
        self._types: dict[fx.Node, str] = {}
        self._made: dict[fx.Node, list[str]] = {}
        """The types of all results of calls with several."""
        self._gradients = step.result_storages() if leaves else step.gradient_storages()
        if counts_gradients and not leaves:
            self._gradients = set()
        self._read()

    def _read(self) -> None:
        step = self.step
        for node in step.placeholders:
            if joint.tensor_of(node) is not None and not joint.is_tangent(node):
                kind = "input" if node not in step.static else "buffer"
                if node in step.static and node.target.startswith("primals") and step.is_trained(node):
                    kind = "parameter"
                self._argument(node, kind, str(node.target), joint.tensor_of(node))
        calls = (node for node in step.lines if node is not None)
        if step.tangents or any(step.runs_once(node) for node in calls):
            self.arguments.append('%outside: tensor<0xi8> {rk.role = "buffer", rk.name = "outside"}')
        for node in step.nodes:
            if node is None:
                self._hand_over()
            else:
                self._node(node)

    def _argument(self, node: fx.Node, role: str, name: str, tensor: torch.Tensor | None) -> None:
        marks = ", rk.trainable" if role == "parameter" else ""
        marks += ", rk.lent" if self.step.is_lent(node) else ""
        attributes = f'{{rk.role = "{role}", rk.name = {spelling.quoted(name)}{marks}}}'
        self._define(node, f"%{node.name}", spelling.type_of(tensor, owner=True))
        self.arguments.append(f"%{node.name}: {self._types[node]} {attributes}")

    def _define(self, node: fx.Node, name: str, spelled: str) -> None:
        self._names[node] = name
        self._types[node] = spelled

    def _node(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            value = getattr(self.step.gm, node.target, None)
            if isinstance(value, torch.Tensor):
                self._argument(node, "buffer", node.target, value)
        elif joint.is_getitem(node):
            source, index = joint.picked(node)
            if source in self._made and joint.tensor_of(node) is not None:
                made = self._made[source]
                self._define(
                    node, f"%{source.name}#{index}" if len(made) > 1 else f"%{source.name}", made[index]
                )
        else:
            self._call(node)

    def _call(self, node: fx.Node) -> None:
        _refuse_unknown_sizes(node)
        about, written = spelling.operator(node.target), spelling.written(node)
        operands: list[fx.Node] = []
        writes: list[int] = []
        arguments: list[str] = []
        for name, value in spelling.in_schema_order(about, node):
            before = len(operands)
            arguments.append(self._spelled(value, operands))
            if name in written:
                writes.extend(range(before, len(operands)))
        types = [self._types[operand] for operand in operands]
        results = joint.results_of(node)
        aliases = self._aliases(results, operands, writes)
        if self.step.runs_once(node):
            # As a change of the world it happens once, and in its place.
            arguments.append("%outside")
            writes.append(len(types))
            types.append("tensor<0xi8>")
        clauses = f" writes({', '.join(map(str, writes))})" if writes else ""
        shared = [base for base in aliases if base >= 0]
        if shared:
            clauses += f" aliases({', '.join(map(str, aliases))})"
        is_random = manner_of(node) is Manner.RANDOM
        clauses += " random" if is_random else ""
        clauses += " backward" if joint.is_backward(node) else ""
        made = [spelling.type_of(one, owner=base < 0) for one, base in zip(results, aliases, strict=True)]
        is_view = len(shared) == len(results) > 0 and not writes and not is_random
        line = len(self.calls) + 1
        gradients = tuple(
            place
            for place, one in enumerate(results)
            if one is not None and joint.storage_of(one) in self._gradients
        )
        self.calls.append(
            Call(
                node, about.name, arguments, types, made, clauses, is_view, line, () if is_view else gradients
            )
        )
        if joint.has_results(node):
            self._made[node] = made
        elif results[0] is not None:
            self._define(node, f"%{node.name}", made[0])

    def _aliases(self, results: joint.Tensors, operands: list[fx.Node], writes: list[int]) -> list[int]:
        storages = {}
        for index, operand in reversed(list(enumerate(operands))):
            storages[joint.storage_of(joint.tensor_of(operand))] = index
        storages.update({joint.storage_of(joint.tensor_of(operands[index])): index for index in writes})
        return [-1 if one is None else storages.get(joint.storage_of(one), -1) for one in results]

    def _spelled(self, value: Any, operands: list[fx.Node]) -> str:
        if isinstance(value, fx.Node):
            if value in self._names:
                operands.append(value)
                return self._names[value]
            return spelling.constant(value.meta.get("val") if value.op != "get_attr" else value.target)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join([self._spelled(one, operands) for one in value])}]"
        return spelling.constant(value)

    def _hand_over(self) -> None:
        given = [node for node in dict.fromkeys(self.step.outputs) if node in self._names]
        arguments = ["%outside", *(self._names[node] for node in given)]
        types = ["tensor<0xi8>", *(self._types[node] for node in given)]
        # The mesh of a sharded tensor's gradient comes with it, and is spelled where it is used.
        tangents = [node for node in self.step.tangents if not joint.is_opaque(node)]
        made = [spelling.type_of(joint.tensor_of(node), owner=True) for node in tangents]
        line = self.step.boundary
        self.calls.append(Call(None, TANGENTS, arguments, types, made, " writes(0)", False, line))
        for index, node in enumerate(tangents):
            self._define(node, "%tangents" if len(made) == 1 else f"%tangents#{index}", made[index])

    def text(
        self, costs: Mapping[str, Cost], model: str, device: str, kernels: str, alignment: int, importer: str
    ) -> str:
        """The module, with the costs that are known by signature, by a cost model and measured on
        ``kernels``.
        """
        values, types = [], []

        def give_back(node: Any, role: str, name: str, lent: bool = False) -> None:
            role = "gradient" if self.leaves else role
            if isinstance(node, fx.Node) and node in self._names:
                marks = f'rk.role = "{role}", rk.name = {spelling.quoted(name)}{", rk.lent" if lent else ""}'
                values.append(self._names[node])
                types.append(f"{self._types[node]} {{{marks}}}")

        lent = self.step.loans.outputs if self.step.tangents else ()
        for index, node in enumerate(self.step.outputs):
            give_back(node, "output", str(index), index in lent)
        for node in self.step.tangents:
            give_back(node, "output", str(node.target))
        for index, node in enumerate(self.step.gradients):
            source = self.step.placeholders[index] if index < len(self.step.placeholders) else None
            apart = source in self.step.static and not self.counts_gradients
            role = "gradient" if apart else "output"
            give_back(node, role, str(source.target) if source is not None else f"gradient {index}")
        lines = [
            f"module attributes {{rk.cost_model = {spelling.quoted(model)}, "
            f"rk.device = {spelling.quoted(device)}, "
            f"rk.settings = {spelling.quoted(kernels)}, rk.alignment = {alignment} : i64, "
            f"rk.importer = {spelling.quoted(importer)}}} {{",
            f"func.func @step({', '.join(self.arguments)})",
            f"    -> ({', '.join(types)}) attributes {{rk.stage = #rk.stage<raw>}} {{",
            *(call.text(costs.get(call.signature) if costs else None) for call in self.calls),
            f"  return {', '.join(values)} : {', '.join(t.rpartition(' {rk.role')[0] for t in types)}",
            "}",
            "}",
        ]
        return "\n".join(lines) + "\n"


def _refuse_unknown_sizes(node: fx.Node) -> None:
    """Raises CompileError for a call that makes a number, or a tensor of a size, that only data can tell."""
    for one in joint.flat(node.meta.get("val")):
        numbers = tuple(one.shape) if isinstance(one, torch.Tensor) else (one,)
        if any(isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) for number in numbers):
            what = f"a tensor of shape {numbers}" if isinstance(one, torch.Tensor) else f"the number {one}"
            path = joint.module_path(node)
            raise CompileError(
                f"{node.target}{f' in {path}' if path else ''} makes {what}, which depends on data, and rk "
                "plans steps of known shapes: keep it out of the graph (torch.compiler.disable on what calls "
                "it, or torch._dynamo.config.capture_dynamic_output_shape_ops and capture_scalar_outputs off)"
            )
