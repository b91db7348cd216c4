"""A joint graph of AOTAutograd as a step of the dialect rk, at stage raw (docs/ir.md says what every piece
of it means).

Every call is one line, and its line number is in its location: a schedule comes back as a list of line
numbers. The forward pass ends at ``rk.tangents``, which hands the outputs to the caller and comes back with
their gradients. Updates of buffers, which AOTAutograd puts at the very end, stand before it, because they
belong to the forward pass.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

from rk import joint
from rk.errors import CompileError

TANGENTS = "rk.tangents.default"
ELEMENTS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}
STANDS_FOR = {1: "ui8", 2: "i16", 4: "i32", 8: "i64", 16: "complex<f64>"}
"""Types that the dialect does not have (8-bit floats, unsigned words) stand there as others of the same
size.
"""
SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
}
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one call takes."""

    nanoseconds: int
    workspace: int


@dataclasses.dataclass
class Call:
    """One line of the text."""

    node: fx.Node | None
    """The node of the graph; None for ``rk.tangents``."""
    head: str
    tail: str
    signature: str
    """The call without names: calls of one signature cost the same."""
    is_view: bool

    def line(self, cost: Cost | None) -> str:
        """The line, with the cost if it is known."""
        known = "" if cost is None else f" cost <{cost.nanoseconds} ns, workspace {cost.workspace} B>"
        return f"  {self.head}{known}{self.tail}"


@functools.lru_cache(maxsize=65536)
def _type(dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], storage: int | None) -> str:
    element = ELEMENTS.get(dtype) or STANDS_FOR[dtype.itemsize]
    extents = "".join(f"{size}x" for size in shape)
    row_major, step = [], 1
    for size in reversed(shape):
        row_major.append(step)
        step *= max(size, 1)
    plain = strides == tuple(reversed(row_major))
    span = 0 if 0 in shape else 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    longer = storage is not None and storage > span * dtype.itemsize
    if plain and not longer:
        return f"tensor<{extents}{element}>"
    more = f", storage {storage}" if longer else ""
    return f"tensor<{extents}{element}, #rk.strided<[{', '.join(map(str, strides))}]{more}>>"


def type_of(tensor: torch.Tensor | None, *, owner: bool = False) -> str:
    """The type of a tensor; with ``owner``, the length of its storage too."""
    if tensor is None:
        return "none"
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if not all(type(size) is int for size in (*shape, *strides)):
        raise CompileError(f"a tensor has the symbolic shape {shape}; rk plans steps of known shapes")
    return _type(tensor.dtype, shape, strides, tensor.untyped_storage().nbytes() if owner else None)


@functools.lru_cache(maxsize=4096)
def _schema(target: Any) -> tuple[str, tuple[tuple[str, Any], ...], frozenset[str]]:
    """Name, arguments with their defaults, and the overwritten arguments of an operator."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return (
            f"{getattr(target, 'namespace', 'python')}.{getattr(target, '__name__', target)}.default",
            (),
            frozenset(),
        )
    space, name = schema.name.split("::")
    arguments = tuple((a.name, a.default_value if a.has_default_value() else None) for a in schema.arguments)
    written = frozenset(a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
    return f"{space}.{name}.{schema.overload_name or 'default'}", arguments, written


def quoted(text: str) -> str:
    """A string as MLIR spells it."""
    plain = [
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
        for c in text
    ]
    return f'"{"".join(plain)}"'


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "minus_inf"
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text


class Step:
    """A joint graph, read."""

    def __init__(self, gm: fx.GraphModule, num_fwd_outputs: int | None, static: Iterable[int]) -> None:
        """``num_fwd_outputs`` is None for a graph without a backward pass; ``static`` are the indices of
        state.
        """
        self.gm = gm
        self.calls: list[Call] = []
        self.arguments: list[str] = []
        self.boundary: int | None = None
        """The line of ``rk.tangents``."""
        outputs = list(fx.graph.map_arg(next(iter(gm.graph.find_nodes(op="output"))).args[0], lambda n: n))
        cut = len(outputs) if num_fwd_outputs is None else num_fwd_outputs
        self.outputs, self.gradients = outputs[:cut], outputs[cut:]
        self.placeholders = list(gm.graph.find_nodes(op="placeholder"))
        self.tangents = [node for node in self.placeholders if joint.is_tangent(node)]
        self.static = {self.placeholders[index] for index in static}
        self._names: dict[fx.Node, str] = {}
        self._types: dict[fx.Node, str] = {}
        self._made: dict[fx.Node, list[str]] = {}
        """The types of all results of calls with several."""
        self._read(gm.graph)

    def _read(self, graph: fx.Graph) -> None:
        for node in self.placeholders:
            if joint.tensor_of(node) is not None and node not in self.tangents:
                kind = "input" if node not in self.static else "buffer"
                if node in self.static and node.target.startswith("primals") and self._trained(node):
                    kind = "parameter"
                self._argument(node, kind, str(node.target), joint.tensor_of(node))
        if self.tangents or any(_is_effect(node) for node in graph.nodes):
            self.arguments.append('%outside: tensor<0xi8> {rk.role = "buffer", rk.name = "outside"}')
        nodes = [node for node in graph.nodes if node.op in ("call_function", "get_attr")]
        # What AOTAutograd appends (updates of arguments) belongs to the forward pass.
        forward = [node for node in nodes if not joint.is_backward(node)] if self.tangents else nodes
        for node in forward:
            self._node(node)
        if self.tangents:
            self._hand_over()
            for node in nodes:
                if joint.is_backward(node):
                    self._node(node)

    def _trained(self, node: fx.Node) -> bool:
        index = self.placeholders.index(node)
        return index < len(self.gradients) and self.gradients[index] is not None

    def _argument(self, node: fx.Node, role: str, name: str, tensor: torch.Tensor | None) -> None:
        trained = ", rk.trainable" if role == "parameter" else ""
        attributes = f'{{rk.role = "{role}", rk.name = {quoted(name)}{trained}}}'
        self._define(node, f"%{node.name}", type_of(tensor, owner=True))
        self.arguments.append(f"%{node.name}: {self._types[node]} {attributes}")

    def _define(self, node: fx.Node, name: str, spelled: str) -> None:
        self._names[node] = name
        self._types[node] = spelled

    def _node(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            value = getattr(self.gm, node.target, None)
            if isinstance(value, torch.Tensor):
                self._argument(node, "buffer", node.target, value)
        elif joint.is_getitem(node):
            source, index = node.args
            if source in self._made and joint.tensor_of(node) is not None:
                made = self._made[source]
                self._define(
                    node, f"%{source.name}#{index}" if len(made) > 1 else f"%{source.name}", made[index]
                )
        else:
            self._call(node)

    def _call(self, node: fx.Node) -> None:
        name, schema, written = _schema(node.target)
        operands: list[fx.Node] = []
        writes: list[int] = []
        spelled: list[str] = []
        anonymous: list[str] = []
        given = dict(zip((argument for argument, _ in schema), node.args, strict=False)) if schema else {}
        rest = node.args[len(schema) :] if schema else node.args
        given.update(node.kwargs)
        values = [(argument, given.get(argument, default)) for argument, default in schema]
        values += [("", value) for value in rest]
        values += [("", value) for key, value in node.kwargs.items() if not any(key == a for a, _ in schema)]
        for argument, value in values:
            before = len(operands)
            spelled.append(self._argument_text(value, operands))
            if argument in written:
                writes.extend(range(before, len(operands)))
        types = [self._types[operand] for operand in operands]
        remaining = iter(types)
        anonymous = [text if "%" not in text else _without_names(text, remaining) for text in spelled]
        results = joint.results_of(node)
        aliases = self._aliases(results, operands, writes)
        if _is_effect(node):
            # A change of the world: it happens once, and in its place.
            spelled.append("%outside")
            writes.append(len(types))
            types.append("tensor<0xi8>")
        clauses = f" writes({', '.join(map(str, writes))})" if writes else ""
        if any(base >= 0 for base in aliases):
            clauses += f" aliases({', '.join(map(str, aliases))})"
        clauses += " random" if joint.is_random(node) else ""
        late = " backward" if joint.is_backward(node) else ""
        made = [type_of(one, owner=base < 0) for one, base in zip(results, aliases, strict=True)]
        label = f"%{node.name}" if len(results) == 1 else f"%{node.name}:{len(results)}"
        line = len(self.calls) + 1
        self.calls.append(
            Call(
                node,
                f"{label} = rk.aten {quoted(name)}({', '.join(spelled)}){clauses}{late}",
                f" : ({', '.join(types)}) -> {_types(made)} {_location(node, line)}",
                f"{name}({', '.join(anonymous)}) -> {_types(made)}",
                bool(results)
                and all(base >= 0 for base in aliases)
                and not writes
                and not joint.is_random(node),
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

    def _argument_text(self, value: Any, operands: list[fx.Node]) -> str:
        if isinstance(value, fx.Node):
            if value in self._names:
                operands.append(value)
                return self._names[value]
            value = value.meta.get("val") if value.op != "get_attr" else str(value.target)
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return _float(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._argument_text(one, operands) for one in value)}]"
        if isinstance(value, torch.dtype):
            return str(SCALAR_TYPES.get(value, -1))
        if isinstance(value, torch.memory_format):
            return str(MEMORY_FORMATS[value])
        if isinstance(value, torch.layout):
            return "0" if value is torch.strided else quoted(str(value))
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise CompileError(f"an operator takes the symbolic size {value}; rk plans steps of known shapes")
        return quoted(str(value))

    def _hand_over(self) -> None:
        given = list(
            dict.fromkeys(node for node in self.outputs if isinstance(node, fx.Node) and node in self._names)
        )
        types = ["tensor<0xi8>", *(self._types[node] for node in given)]
        made = [type_of(joint.tensor_of(node), owner=True) for node in self.tangents]
        label = "%tangents" if len(made) == 1 else f"%tangents:{len(made)}"
        operands = ", ".join(["%outside", *(self._names[node] for node in given)])
        self.boundary = len(self.calls) + 1
        head = f'{label} = rk.aten "{TANGENTS}"({operands}) writes(0)'
        tail = f' : ({", ".join(types)}) -> {_types(made)} loc("<root>"("graph":{self.boundary}:1))'
        self.calls.append(Call(None, head, tail, TANGENTS, False))
        for index, node in enumerate(self.tangents):
            self._define(node, "%tangents" if len(made) == 1 else f"%tangents#{index}", made[index])

    def text(self, costs: Mapping[str, Cost], device: str, alignment: int, importer: str) -> str:
        """The module, with the costs that are known by signature."""
        values, types = [], []

        def give_back(node: Any, role: str, name: str) -> None:
            if isinstance(node, fx.Node) and node in self._names:
                values.append(self._names[node])
                types.append(f'{self._types[node]} {{rk.role = "{role}", rk.name = {quoted(name)}}}')

        for index, node in enumerate(self.outputs):
            give_back(node, "output", str(index))
        for node in self.tangents:
            give_back(node, "output", str(node.target))
        for index, node in enumerate(self.gradients):
            source = self.placeholders[index] if index < len(self.placeholders) else None
            role = "gradient" if source in self.static else "output"
            give_back(node, role, str(source.target) if source is not None else f"gradient {index}")
        lines = [
            f"module attributes {{rk.device = {quoted(device)}, rk.alignment = {alignment} : i64, "
            f"rk.importer = {quoted(importer)}}} {{",
            f"func.func @step({', '.join(self.arguments)})",
            f"    -> ({', '.join(types)}) attributes {{rk.stage = #rk.stage<raw>}} {{",
            *(call.line(costs.get(call.signature)) for call in self.calls),
            f"  return {', '.join(values)} : {', '.join(t.rpartition(' {rk.role')[0] for t in types)}",
            "}",
            "}",
        ]
        return "\n".join(lines) + "\n"


def _is_effect(node: fx.Node) -> bool:
    """Whether a call is made for something besides its results: an assertion, a collective."""
    if node.op != "call_function" or joint.is_getitem(node):
        return False
    schema = getattr(node.target, "_schema", None)
    silent = schema is not None and not schema.returns and not schema.is_mutable
    return silent or getattr(node.target, "namespace", "") in ("_c10d_functional", "c10d_functional")


def _without_names(text: str, types: Any) -> str:
    """Names of values replaced by their types, in order."""
    words = text.strip("[]").split(", ")
    inner = ", ".join(next(types) if word.startswith("%") else word for word in words)
    return f"[{inner}]" if text.startswith("[") else inner


def _types(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _location(node: fx.Node, line: int) -> str:
    return f'loc({quoted(joint.module_path(node) or "<root>")}("graph":{line}:1))'
