"""The graph of a pass as the source of a Python function that forgets each value after its last reader.

Everything that the function calls, and every constant without a literal, is a global of it that is found
once, when the function is made, and not at every call. :func:`address` says how another process finds it.
"""

from __future__ import annotations

import enum
import importlib
import math
import operator
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

Address = tuple[str, Any]
"""``name`` with a module and a dotted name in it, ``device`` with its text, ``value`` with a number,
``complex`` with two; ``text`` with an expression and the addresses of its names, as the values of
``torch._library.opaque_object`` give them; ``object`` with the object itself, which no other process finds.
"""
_LITERALS = frozenset({int, bool, str, bytes, type(None)})
_SPELLED_BY_TORCH = (torch.dtype, torch.layout, torch.memory_format)


class Source:
    """The source of one pass."""

    def __init__(self, graph: fx.Graph, name: str) -> None:
        """``name`` is that of the function. It takes an object that has the constants of the graph, and a
        list of the arguments, which it empties, and returns a tuple.
        """
        self.globals: dict[str, Address] = {}
        """Where the globals of the function are found, by their names."""
        self._names: dict[int | str, str] = {}
        nodes = list(graph.nodes)
        self._taken = {node.name for node in nodes} | {name, "slice"}
        self._constants, arguments = self._unused("self"), self._unused("args")
        taken = "".join(f"{node.name}, " for node in nodes if node.op == "placeholder")
        body = [f"({taken}) = {arguments}" if taken else "", f"{arguments}.clear()"]
        dying = _last_reads(nodes)
        for node in nodes:
            if node.op == "output":
                body.append(f"return {self._spelled(tuple(node.args[0]))}")
            elif node.op != "placeholder":
                made = self._made(node)
                body.append(f"{node.name} = {made}" if node.users else made)
                if node in dying:
                    body.append(f"{' = '.join(dying[node])} = None")
        lines = "".join(f"    {line}\n" for line in body if line)
        self.text = f"def {name}({self._constants}, {arguments}):\n{lines}"

    def readable(self) -> str:
        """The source below comments that say what its globals are."""
        return "".join(f"# {name}: {_said(one)}\n" for name, one in sorted(self.globals.items())) + self.text

    def _made(self, node: fx.Node) -> str:
        if node.op == "get_attr":
            return f"{self._constants}.{node.target}"
        if node.target is operator.getitem:
            source, key = node.args
            return f"{self._spelled(source)}[{self._spelled(key)}]"
        given = [self._spelled(one) for one in node.args]
        given += [f"{key}={self._spelled(one)}" for key, one in node.kwargs.items()]
        return f"{self._global(node.target)}({', '.join(given)})"

    def _spelled(self, value: Any) -> str:
        kind = type(value)
        if kind is fx.Node:
            return value.name
        if kind in _LITERALS or kind is float and math.isfinite(value):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._global(kind)}({', '.join(map(self._spelled, value))})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._spelled, value))}]"
        if kind is tuple or kind is torch.Size:
            return f"({''.join(f'{self._spelled(one)}, ' for one in value)})"
        if kind is slice:
            return f"slice({', '.join(map(self._spelled, (value.start, value.stop, value.step)))})"
        if isinstance(value, Mapping):
            pairs = (f"{self._spelled(key)}: {self._spelled(one)}" for key, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        return self._global(value)

    def _global(self, value: Any) -> str:
        # By identity where it can be: hashing an operator takes longer than all else that is done here.
        key = repr(value) if isinstance(value, (float, complex, torch.device)) else id(value)
        if key not in self._names:
            kind, where = found = address(value)
            own = getattr(value, "__name__", f"{type(value).__name__}_constant")
            wanted = where[1].removeprefix("ops.") if kind == "name" else own
            name = self._names[key] = self._unused(re.sub(r"\W", "_", wanted))
            self.globals[name] = found
        return self._names[key]

    def _unused(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _last_reads(nodes: list[fx.Node]) -> dict[fx.Node, list[str]]:
    """The names of the values that a node is the last one to read."""
    found: dict[fx.Node, list[str]] = {}
    read: set[fx.Node] = set()
    for node in reversed(nodes):
        last = [one for one in node.all_input_nodes if one not in read]
        if last:
            read.update(last)
            found[node] = [one.name for one in last]
    return found


def address(value: Any) -> Address:
    """How another process finds what the code of a pass calls or has as a constant."""
    if isinstance(value, torch.device):
        return "device", str(value)
    if type(value) is float:
        return "value", value
    if type(value) is complex:
        return "complex", [value.real, value.imag]
    if hasattr(type(value), "__fx_repr__"):
        text, used = value.__fx_repr__()
        return "text", [text, {name: address(one) for name, one in used.items()}]
    module, name = _place(value)
    try:
        if module is not None and operator.attrgetter(name)(sys.modules.get(module)) is value:
            return "name", [module, name]
    except AttributeError:
        pass
    return "object", value


def _place(value: Any) -> tuple[str | None, str]:
    """The module and the dotted name under which a value should be found."""
    if isinstance(value, torch._ops.OpOverload):
        return "torch", f"ops.{value}"
    if isinstance(value, _SPELLED_BY_TORCH):
        return "torch", str(value).removeprefix("torch.")
    owner = type(value) if isinstance(value, enum.Enum) else value
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None, ""
    return module, name if owner is value else f"{name}.{value.name}"


def is_lasting(one: Address) -> bool:
    """Whether another process finds what is there."""
    kind, where = one
    return kind != "object" and (kind != "text" or all(map(is_lasting, where[1].values())))


def found(globals: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """The globals of a function, by their addresses."""
    return {name: _found(*one) for name, one in globals.items()}


def _found(kind: str, where: Any) -> Any:
    if kind == "name":
        module, name = where
        return operator.attrgetter(name)(importlib.import_module(module))
    if kind == "text":
        text, used = where
        return eval(text, found(used))
    if kind == "complex":
        return complex(*where)
    return torch.device(where) if kind == "device" else where


def _said(one: Address) -> str:
    kind, where = one
    return ".".join(where) if kind == "name" else str(where[0] if kind == "text" else where)
