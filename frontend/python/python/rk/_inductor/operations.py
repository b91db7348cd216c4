"""What Inductor's own kernels compute, where that takes longer than reading and writing: a stated model.

On a GPU arithmetic hides behind memory. On a CPU some operations do not: random numbers, which come from a
counter and one by one, transcendental functions, and masks, which are written byte by byte.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode

from rk._inductor import lowering

NANOSECONDS = {
    "rand": 10.0,
    "randn": 35.0,
    "randint64": 10.0,
    "tanh": 1.5,
    "erf": 0.5,
    "erfc": 3.3,
    "erfinv": 26.0,
    "exp": 0.3,
    "exp2": 0.3,
    "expm1": 0.3,
    "log": 0.5,
    "log2": 0.5,
    "log10": 0.5,
    "log1p": 0.8,
    "pow": 2.4,
    "sin": 0.3,
    "cos": 0.3,
    "tan": 1.0,
    "asin": 0.7,
    "acos": 0.7,
    "atan": 1.0,
    "atan2": 1.4,
    "sinh": 1.3,
    "cosh": 1.3,
    "sigmoid": 0.4,
    "sqrt": 0.1,
    "rsqrt": 0.2,
    "fmod": 0.7,
    "remainder": 1.4,
    "lgamma": 6.3,
}
"""Of one operation on one element, in one thread, beyond ``y + 1``: medians of kernels of 32,768 numbers with
torch 2.11 on an x86-64 core with AVX-512.
"""
MASK = 8.0
"""Nanoseconds to write one element of a mask, likewise."""


def nanoseconds(kernel: BaseSchedulerNode) -> float:
    """What one thread takes for the slow operations of one of Inductor's own kernels; nothing for a template,
    which has no loops to look at.
    """
    return sum(_of(node) for node in kernel.get_nodes() if isinstance(node, SchedulerNode))


def of_mask(buffer: Any) -> float:
    """What one thread takes longer for a buffer that is written, because it is a mask."""
    size = lowering.bytes_of(buffer)
    return MASK * size if size and buffer.get_dtype() == torch.bool else 0.0


def _of(node: SchedulerNode) -> float:
    body = node._body
    if body is None:
        return 0.0
    sizes = [lowering.number(size) for part in node.get_ranges() for size in part]
    elements = math.prod(1 if size is None else size for size in sizes)
    blocks = (body.root_block, *body.subblocks.values())
    return elements * sum(_distinct(block.graph) for block in blocks)


def _distinct(graph: torch.fx.Graph) -> float:
    """The same for one element. What is computed twice of the same values is computed once in the end."""
    seen: dict[Any, Any] = {}
    found = 0.0
    for node in graph.nodes:
        own = (node.op, node.target, str(torch.fx.node.map_arg((node.args, node.kwargs), seen.get)))
        # A placeholder or a load at another index has other arguments.
        first = seen.setdefault(own, node)
        seen[node] = first
        if first is node and node.op == "call_method":
            found += NANOSECONDS.get(str(node.target), 0.0)
    return found
