"""A step cut into blocks: the modules that repeat, each with the nodes of its forward and backward pass."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rk import _rk
from rk._plan import planning
from rk._report.stages import StepGraph


@dataclasses.dataclass(frozen=True)
class Block:
    """One block of a step."""

    name: str
    """The module that it is, or the modules that it spans."""
    kind: int
    """Blocks of one kind compute the same bits."""
    nodes: tuple[planning.Node, ...]
    """Those of its forward and of its backward pass."""
    graph: StepGraph = dataclasses.field(repr=False)
    """The step that the block is of."""

    @property
    def seconds(self) -> float:
        """Forward and backward; 0 at stages without costs."""
        return sum(node.seconds for node in self.nodes)


def cut(S_graph: StepGraph) -> list[Block]:
    """The blocks of a step.

    Args:
        S_graph: A step at stage ``simplified``, or further.

    Returns:
        The blocks, in order.
    """
    return _blocks(S_graph.at("blocks"))


def S_list_to_K_list_eco(
    list_sg: Sequence[Block], model: Any = None, device: Any = None, verbose: Any = None
) -> tuple[list[list[int]], list[Block], list[Block]]:
    """The classes of equal blocks, with costs.

    Costs are measured once for each kind of call, so equal blocks are measured once.

    Args:
        list_sg: The blocks of :func:`cut`.
        model: Accepted for rk-GB's scripts.
        device: Accepted for rk-GB's scripts.
        verbose: Accepted for rk-GB's scripts.

    Returns:
        The classes as lists of places, the blocks with costs, and the first block of each class.
    """
    if not list_sg:
        return [], [], []
    priced = _blocks(list_sg[0].graph.at("costed"))
    by_name = {block.name: block for block in priced}
    classes: dict[int, list[int]] = {}
    for place, block in enumerate(list_sg):
        classes.setdefault(block.kind, []).append(place)
    firsts = [list_sg[places[0]] for places in classes.values()]
    return list(classes.values()), [by_name[block.name] for block in list_sg], firsts


def _blocks(graph: StepGraph) -> list[Block]:
    about = json.loads(_rk.translate(graph.text, "json"))
    nodes: list[list[planning.Node]] = [[] for _ in about["blocks"]]
    for node in about["nodes"]:
        if node["block"] is not None:
            nodes[node["block"]].append(planning.node_of(node, runs=1))
    pairs = zip(about["blocks"], nodes, strict=True)
    return [Block(one["name"], one["class"], tuple(mine), graph) for one, mine in pairs]
