"""Graphs drawn into files of the folder ``graphviz_dir``, as rk-GB does."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rk._report.stages import StepGraph
from rk.rkgb.blocks import Block

if TYPE_CHECKING:
    from rk.rkgb.result import Result

FOLDER = Path("graphviz_dir")


def print_graph(
    g: StepGraph | None, name: str | None = None, open: bool = False, render_format: str = "svg"
) -> Path | None:
    """Draws a graph into ``graphviz_dir/NAME.FORMAT``.

    Args:
        g: The graph; None draws nothing.
        name: The file's name without its ending; the stage without it.
        open: Whether to show the file in a browser.
        render_format: ``svg``, ``pdf`` or ``png``.

    Returns:
        The file.

    Raises:
        OptionError: There is no such format.
        CompileError: Graphviz is missing, fails, or takes more than a minute.
    """
    if g is None:
        return None
    return _shown(g.render(_file(name or g.stage, render_format)), open)


def print_graph_list(
    gl: Sequence[Block] | None, name: str | None = None, open: bool = False, render_format: str = "svg"
) -> Path | None:
    """Draws a step with these blocks in full, and the others folded.

    Args:
        gl: The blocks; none of them draws nothing.
        name: The file's name without its ending.
        open: Whether to show the file in a browser.
        render_format: ``svg``, ``pdf`` or ``png``.

    Returns:
        The file.

    Raises:
        OptionError: There is no such format.
        CompileError: Graphviz is missing, fails, or takes more than a minute.
    """
    if not gl:
        return None
    chosen = [block.name for block in gl]
    path = gl[0].graph.render(_file(name or "blocks", render_format), chosen)
    return _shown(path, open)


def print_all_graphs(a: Result, name: str = "", open: bool = False, render_format: str = "svg") -> list[Path]:
    """Draws D, S and K, and the blocks of S and K: one of each class in full.

    Args:
        a: What ``make_all_graphs`` returned.
        name: What the files' names begin with.
        open: Whether to show the files in a browser.
        render_format: ``svg``, ``pdf`` or ``png``.

    Returns:
        The files.

    Raises:
        OptionError: There is no such format.
        CompileError: Graphviz is missing, fails, or takes more than a minute.
    """
    drawn: list[Any] = [
        print_graph(graph, f"{name}_{letter}_graph", open, render_format)
        for letter, graph in (("D", a.D_graph), ("S", a.S_graph), ("K", a.K_graph))
    ]
    firsts = {block.name for block in a.list_ano_S}
    for letter, blocks in (("S", a.S_graph_list), ("K", a.K_graph_list)):
        chosen = [block for block in blocks if block.name in firsts]
        drawn.append(print_graph_list(chosen, f"{name}_seq_{letter}_graph", open, render_format))
    return [path for path in drawn if path is not None]


def _file(name: str, kind: str) -> Path:
    FOLDER.mkdir(exist_ok=True)
    return FOLDER / f"{name}.{kind}"


def _shown(path: Path, open: bool) -> Path:
    if open:
        webbrowser.open(path.absolute().as_uri())
    return path
