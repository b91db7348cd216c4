"""A graph of Dynamo once more, so that AOTAutograd knows of the copy what it knows of the original."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

SOURCE, SOURCES = "_dynamo_source", "_param_name_to_source"
"""Where Dynamo keeps which arguments of its graph are whose: on a node, on a module."""


def copied(gm: fx.GraphModule, constants: Mapping[fx.Node, int] | None = None) -> fx.GraphModule:
    """The graph once more, sharing what it holds; ``constants`` stand in place of some of its arguments."""
    graph, copies = fx.Graph(), dict(constants or {})
    graph.output(graph.graph_copy(gm.graph, copies))
    graph.output_node().meta.update(gm.graph.output_node().meta)
    module = fx.GraphModule(gm, graph)
    module.meta = dict(gm.meta)
    # By these AOTAutograd tells parameters from inputs.
    for node, copy in copies.items():
        if hasattr(node, SOURCE) and isinstance(copy, fx.Node):
            setattr(copy, SOURCE, getattr(node, SOURCE))
    if hasattr(gm, SOURCES):
        setattr(module, SOURCES, getattr(gm, SOURCES))
    return module
