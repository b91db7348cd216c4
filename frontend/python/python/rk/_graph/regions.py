"""Regions that a model marks (``torch.compiler.nested_compile_region``), written out where they are called.

Such a mark lets a compiler handle a region once for all of its calls. rk finds by itself which operators are
equal, and which values of a region stay until backward is decided for each of its calls, so it takes the
graph without the marks: PyTorch's tracing of it has the same operators.
"""

from __future__ import annotations

import torch
from torch import fx

INVOKE = torch.ops.higher_order.invoke_subgraph


def write_out(gm: fx.GraphModule) -> None:
    """Replaces calls of regions in a graph of Dynamo by what they call, regions inside of regions as well."""
    found = False
    while calls := gm.graph.find_nodes(op="call_function", target=INVOKE):
        found = True
        for call in calls:
            _write_out(gm, call)
    if found:
        gm.recompile()


def _write_out(gm: fx.GraphModule, call: fx.Node) -> None:
    region, _, *operands = call.args
    inside = gm.get_submodule(region.target)
    copies = dict(zip(inside.graph.find_nodes(op="placeholder"), operands, strict=True))
    with gm.graph.inserting_before(call):
        results = gm.graph.graph_copy(inside.graph, copies)
    for node, copy in copies.items():
        if node.op in ("get_attr", "call_module"):
            copy.target = f"{region.target}.{node.target}"
    for user in list(call.users):
        # Dynamo takes every result by its place.
        user.replace_all_uses_with(results[user.args[1]])
        gm.graph.erase_node(user)
    gm.graph.erase_node(call)
    if not region.users:
        gm.graph.erase_node(region)
