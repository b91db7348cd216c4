"""What a step takes when the user's own checkpoints are obeyed: ``torch.utils.checkpoint`` inside of a model.

A share such as ``60%`` is one of the peak without any recomputation, which a user with checkpoints never had.
So there is another peak to take a share of: that of the step in which every region that the user checkpoints
is dropped after forward, and run again, all of it, when the backward pass first needs something of it. It is
the same graph with these second runs written down, and it is judged like any other that keeps what it has.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from rk._graph import joint, loans
from rk._graph.step import Step

_BATCH_NORM = torch.ops.aten.native_batch_norm.default


def are_in(step: Step) -> bool:
    """Whether the user has checkpoints in a step."""
    return any(node is not None and joint.is_checkpointed(node) for node in step.lines)


def obeyed(step: Step) -> Step:
    """The step with the second runs that the user's checkpoints ask for, and none besides."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(step.gm.graph, copies))
    _run_again(graph)
    static = [step.places[node] for node in step.static]
    return Step(fx.GraphModule(step.gm, graph), len(step.outputs), static, replays=step.replays)


def _run_again(graph: fx.Graph) -> None:
    for region, readers in _readers(graph).items():
        again: dict[fx.Node, fx.Node] = {}
        # All of a region runs again before anything of it is read.
        with graph.inserting_before(readers[0]):
            for reader in readers:
                new = functools.partial(_second, graph, again, region)
                reader.args, reader.kwargs = map_arg(reader.args, new), map_arg(reader.kwargs, new)


def _readers(graph: fx.Graph) -> dict[Any, list[fx.Node]]:
    """Per region, the nodes of the backward pass that read something of it, in their order."""
    readers: dict[Any, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and joint.is_backward(node):
            dropped = (source for source in node.all_input_nodes if loans.is_dropped(source))
            for region in {loans.region(source) for source in dropped}:
                readers.setdefault(region, []).append(node)
    return readers


def _second(graph: fx.Graph, again: dict[fx.Node, fx.Node], region: Any, node: fx.Node) -> fx.Node:
    """The second run of a node, if it has one in this region."""
    if node in again:
        return again[node]
    source = node.args[0] if joint.is_getitem(node) else node
    if not loans.is_dropped(node) or loans.region(source) != region:
        return node
    new = functools.partial(_second, graph, again, region)
    args, kwargs = map_arg(node.args, new), map_arg(node.kwargs, new)
    if node.target is _BATCH_NORM:
        args = (*args[:3], None, None, *args[5:])
    again[node] = joint.second_run(graph, node, args, kwargs)
    return again[node]
