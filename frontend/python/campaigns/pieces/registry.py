"""What a program is made of: pieces, each of which maps rows of ``width`` numbers to rows of as many.

So any piece may follow any other. A piece is a function or a module with few parameters, each with its
possible values, the plainest first; what it takes besides rows belongs to the caller and is named. Its source
must make sense by itself, with ``torch``, ``nn``, ``functional`` and what it names as ``needs``: scripts are
made of it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from torch import nn


@dataclasses.dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    name: str
    kind: str
    """What it is an instance of, for the table of results."""
    make: Callable[..., Any]
    """A module class, called with the width and parameters; or a function of rows and parameters."""
    takes: tuple[str, ...]
    """What it reads of the caller's, after the rows: names of :func:`campaigns.caller.given`."""
    needs: tuple[Any, ...]
    """Functions and classes that its source uses."""
    weight: float
    """How often it is drawn, beside 1 for the others."""
    choices: dict[str, tuple[Any, ...]]

    def build(self, width: int, parameters: dict[str, Any]) -> nn.Module:
        """The piece as a module."""
        if inspect.isclass(self.make):
            return self.make(width, **parameters)
        return Stateless(self.make, parameters)

    def sources(self) -> list[str]:
        """The text of what it needs and of itself, without our decorators."""
        return [source(one) for one in (*self.needs, self.make)]


class Stateless(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], parameters: dict[str, Any]) -> None:
        """The function is called with rows, what it takes, and its parameters."""
        super().__init__()
        self.function, self.parameters_of_function = function, parameters

    def forward(self, *args: Any) -> Any:
        """Calls the function."""
        return self.function(*args, **self.parameters_of_function)


PIECES: dict[str, Piece] = {}


def piece(
    kind: str,
    /,
    *,
    takes: tuple[str, ...] = (),
    needs: tuple[Any, ...] = (),
    weight: float = 1.0,
    **choices: tuple[Any, ...],
) -> Callable[[Any], Any]:
    """Adds a function or a module class to the vocabulary, by its own name."""

    def add(make: Any) -> Any:
        name = make.__name__
        if name in PIECES:
            raise ValueError(f"two pieces are called {name}")
        PIECES[name] = Piece(name, kind, make, takes, needs, weight, choices)
        return make

    return add


def source(one: Any) -> str:
    """The text of a function or class; that of a module is its body."""
    text = textwrap.dedent(inspect.getsource(one))
    tree = ast.parse(text)
    if inspect.ismodule(one):
        kept = [node for node in tree.body if not _is_preamble(node)]
        lines = text.splitlines()
        return "\n\n".join("\n".join(lines[_first(node) - 1 : node.end_lineno]) for node in kept)
    lines, (node,) = text.splitlines(), tree.body
    foreign = [one for one in node.decorator_list if "piece(" not in ast.unparse(one)]
    return "\n".join([*(f"@{ast.unparse(one)}" for one in foreign), *lines[node.lineno - 1 :]])


def _first(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def _is_preamble(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, (ast.Import, ast.ImportFrom))
