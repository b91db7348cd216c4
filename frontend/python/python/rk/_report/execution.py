"""A stage of a step, executed as its text says: operator by operator, on PyTorch's kernels.

``rk.rkgb.test_rkgb`` compares the stages with it. Operators, operands, constants, the order of calls, what is
dropped and what is run again are read from the text alone; only the tensors that go in come from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rk._graph import random_state
from rk._graph.graph_text import TANGENTS
from rk.errors import CompileError

OUTSIDE = object()
"""What ``outside`` holds: it orders calls, and no operator takes it."""
GENERATOR = "!rk.generator"
"""The type of a generator's state, which a random node hands to its second run."""
WORDS = {"none": None, "true": True, "false": False, "nan": float("nan")}
WORDS |= {"inf": float("inf"), "minus_inf": float("-inf")}
TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([\[\](),])|([^\s\[\](),"]+)')
ARGUMENT = re.compile(r'(%[\w.$-]+): [^{}]*\{[^{}]*rk\.name = "([^"]*)"')
LINE = re.compile(r"\s*(?:(?P<made>%[^=]*?) = )?(?P<op>rk\.\w+|return|\^\w+|func\.func|\})(?P<rest>.*)")
RUN = re.compile(r'(?P<marks>(?: \w+)*) @(?:"(?P<quoted>[^"]+)"|(?P<plain>[\w.$-]+))\((?P<operands>[^)]*)\)')

Block = list[tuple[list[str], str, str, "Block"]]
"""Lines of a region: the names of results, the operation, what follows it, the lines inside of it."""
Node = tuple[Block, int | None]
"""A node: its lines, and the operand in whose storage it may put its result."""


class Stage:
    """The text of a step at one stage, ready to run."""

    def __init__(self, text: str) -> None:
        """Reads the text of one step."""
        lines = (match for line in text.splitlines() if (match := LINE.match(line)))
        self._nodes: dict[str, Node] = {}
        self._step: Block = []
        for _, op, rest, inside in _region(lines):
            if op == "rk.node":
                overwrites = re.search(r" overwrites\((\d+)\)", rest)
                self._nodes[_symbol(rest)] = inside, int(overwrites[1]) if overwrites else None
            elif op == "func.func":
                self._arguments, self._step = ARGUMENT.findall(rest.partition(" -> ")[0]), inside

    def run(self, arguments: Mapping[str, Any], tangents: Sequence[torch.Tensor]) -> list[Any]:
        """The results of the step. Buffers among the arguments are updated in place."""
        run = _Run(self._nodes, tangents)
        values = {}
        for value, name in self._arguments:
            values[value] = OUTSIDE if name == "outside" else arguments[name]
        with torch.no_grad():
            return run.block(self._step, values)


class _Run:
    """One execution."""

    def __init__(self, nodes: dict[str, Node], tangents: Sequence[torch.Tensor]) -> None:
        self._nodes, self._tangents = nodes, list(tangents)

    def block(self, block: Block, values: dict[str, Any], again: bool = False) -> list[Any]:
        """Runs the lines of a region, up to what it returns."""
        for made, op, rest, inside in block:
            if op in ("return", "rk.yield"):
                return [_read(name, values) for name in _names(rest.partition(" : ")[0])]
            if op == "rk.drop":
                del values[_names(rest)[0]]
                continue
            if op == "rk.aten":
                results = self._call(rest, values, again)
            elif op == "rk.run":
                results = self._node(rest, values)
            elif op == "rk.write":
                base = _read(_names(rest)[0], values)
                scope = values | {_names(inside[0][2])[0]: base.clone()}
                results = self.block(inside[1:], scope, again)
            else:
                raise CompileError(f"'{op}' cannot be executed from the text of a stage")
            values.update(zip(made, results, strict=True))
        raise CompileError("the text of the stage ends without a result")

    def _node(self, rest: str, values: dict[str, Any]) -> list[Any]:
        call = RUN.match(rest)
        name, marks = call["quoted"] or call["plain"], call["marks"].split()
        lines, overwritten = self._nodes[name]
        # A node without operands has no head.
        taken = _names(lines[0][2]) if lines[0][1].startswith("^") else []
        lines = lines[bool(taken) :]
        operands = [_read(one, values) for one in _names(call["operands"])]
        device = next((one.device for one in operands if isinstance(one, torch.Tensor)), torch.device("cpu"))
        operand_types, _, result_types = rest.partition(" : ")[2].partition(" -> ")

        if overwritten is not None and "overwrite" not in marks:
            operands[overwritten] = operands[overwritten].clone()

        def run() -> list[Any]:
            return self.block(lines, dict(zip(taken, operands, strict=True)), "again" in marks)

        if GENERATOR in operand_types:
            return random_state.replay(operands.pop(), device, run)
        if GENERATOR in result_types:
            state = random_state.save(device).clone()
            return [*run(), state]
        return run()

    def _call(self, rest: str, values: dict[str, Any], again: bool) -> list[Any]:
        name, arguments, clauses = _parsed(rest, values)
        if name == TANGENTS:
            return self._tangents
        if again and (effects := re.search(r" effects\(([\d, ]+)\)", clauses)):
            # What the first run has updated; the operator computes the same without it.
            for place in effects[1].split(","):
                arguments[int(place)] = None
        operator = _operator(name)
        arguments = [one for one in arguments if one is not OUTSIDE]
        apart = [one.name for one in operator._schema.arguments if one.kwarg_only]
        first = len(arguments) - len(apart)
        made = operator(*arguments[:first], **dict(zip(apart, arguments[first:], strict=True)))
        return list(made) if isinstance(made, (tuple, list)) else [] if made is None else [made]


def _region(lines: Iterator[re.Match[str]]) -> Block:
    """The lines up to the end of a region, with the regions inside of them."""
    found: Block = []
    for line in lines:
        if line["op"] == "}":
            break
        opens = line["op"] in ("rk.node", "func.func", "rk.write")
        found.append((_made(line["made"] or ""), line["op"], line["rest"], _region(lines) if opens else []))
    return found


def _made(text: str) -> list[str]:
    """The names of results: ``%a``, ``%a, %b`` or ``%a:2``."""
    names = []
    for one in filter(None, text.split(", ")):
        name, _, count = one.partition(":")
        names += [f"{name}#{place}" for place in range(int(count))] if count else [name]
    return names


def _names(text: str) -> list[str]:
    """The values in a piece of text."""
    return re.findall(r"%[\w.$#-]+", re.sub(r"loc\((?:[^()]|\([^()]*\))*\)", "", text))


def _symbol(rest: str) -> str:
    found = re.match(r' @(?:"([^"]+)"|([\w.$-]+))', rest)
    return found[1] or found[2]


def _parsed(rest: str, values: dict[str, Any]) -> tuple[str, list[Any], str]:
    """A call: its operator, the values of its arguments, and what follows them."""
    tokens = TOKEN.finditer(rest)
    name = next(tokens)[1]
    next(tokens)
    stack: list[list[Any]] = [[]]
    for token in tokens:
        string, bracket, word = token.groups()
        if bracket == ")":
            return name, stack[0], rest[token.end() :].partition(" : ")[0]
        if bracket == "[":
            stack.append([])
        elif bracket == "]":
            done = stack.pop()
            stack[-1].append(done)
        elif string is not None:
            stack[-1].append(string)
        elif word:
            stack[-1].append(_value(word, values))
    raise CompileError(f"the call of {name} has no end")


def _value(word: str, values: dict[str, Any]) -> Any:
    if word.startswith("%"):
        return _read(word, values)
    if word in WORDS:
        return WORDS[word]
    return float(word) if any(mark in word for mark in ".e") else int(word)


def _read(name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        raise CompileError(f"{name} is read, and has been dropped or was never made")
    return values[name]


def _operator(name: str) -> Any:
    space, operator, overload = name.split(".", 2)
    try:
        return getattr(getattr(getattr(torch.ops, space), operator), overload)
    except (AttributeError, RuntimeError):
        raise CompileError(f"{name} cannot be executed outside of the graph that it was traced in") from None
