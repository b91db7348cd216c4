"""What rk's runtime cannot run, found before anything is planned or measured (codegen ``rk``).

A step file holds calls of operators that libtorch knows by their names, on dense tensors of one device, with
arguments that are numbers, strings and lists of these. Whatever else a joint graph has is refused here, by
its name and with the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from rk._graph import joint, spelling
from rk._graph.step import Step
from rk.errors import CompileError

PLAIN = (int, float, bool, str, torch.dtype, torch.memory_format, torch.device, type(None))
"""What an argument may be besides tensors, and lists."""
NOT_FROM_OUTSIDE = {torch.uint16, torch.uint32, torch.uint64, torch.float8_e8m0fnu}
"""Element types that values of a step may have, and neither its arguments nor its tangents."""
WITHOUT_MEMORY = "aten::_efficientzerotensor"
"""Zeros that kernels know by their kind, not by their bytes; so may be what is made of them."""
LARGEST_OF_A_BAG = 2
"""The mode of an ``nn.EmbeddingBag`` whose backward pass looks up which bags are empty."""


def check(step: Step, device: torch.device) -> None:
    """Raises CompileError for the first thing that the runtime cannot run."""
    if device.type != "cpu":
        raise CompileError(
            f"codegen='rk' runs on the CPU only, and this graph is on {device}; codegen='fx' runs there"
        )
    if torch._functorch._aot_autograd.utils.saved_tensors_hooks_are_inlineable(
        torch._functorch._aot_autograd.utils.top_saved_tensors_hooks()
    ):
        raise _refused("hooks on saved tensors are graphs, which are written into the passes", None)
    for node in step.nodes:
        if node is not None and node.op == "call_function" and not joint.is_getitem(node):
            _call(node)
        if node is not None:
            _results(node)
    for node in step.placeholders:
        _placeholder(node)


def _refused(what: str, node: fx.Node | None) -> CompileError:
    return CompileError(f"{what}{_where(node)}: codegen='rk' cannot run this graph; codegen='fx' can")


def _unknown(what: str, node: fx.Node | None) -> CompileError:
    """No codegen plans this; Dynamo ends a graph there unless it is told otherwise."""
    return CompileError(
        f"{what}{_where(node)}: rk plans steps of known sizes. With capture_dynamic_output_shape_ops and "
        "capture_scalar_outputs of torch._dynamo.config off, the graph ends there, and both parts are planned"
    )


def _where(node: fx.Node | None) -> str:
    path = "" if node is None else joint.module_path(node)
    return f" at {path!r}" if path else ""


def _placeholder(node: fx.Node) -> None:
    name, value = str(node.target), node.meta.get("val")
    if joint.is_backward_only(node) and not joint.is_tangent(node):
        raise _refused(f"{name} comes in with the backward pass", None)
    if isinstance(value, torch.Tensor):
        _tensor(value, f"the argument {name}", None)
        if value.dtype in NOT_FROM_OUTSIDE:
            raise _refused(f"the argument {name} has elements of type {value.dtype}", None)
    elif value is not None and not isinstance(value, (int, float, bool)):
        raise _refused(f"the argument {name} is of type {type(value).__name__}", None)


def _call(node: fx.Node) -> None:
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        inner = next((f" of {one}" for one in node.args if isinstance(one, torch._ops.OpOverload)), "")
        raise _refused(f"the higher-order operator {target.name()}{inner}", node)
    if not isinstance(target, torch._ops.OpOverload):
        name = getattr(target, "__qualname__", str(target))
        raise _refused(f"{name} is a function of Python, not an operator", node)
    if target.name() == WITHOUT_MEMORY:
        raise _refused(f"{target} makes zeros without memory, for forward-mode differentiation", node)
    for name, value in spelling.in_schema_order(spelling.operator(target), node):
        if (name, value) == ("mode", LARGEST_OF_A_BAG) and "bag_backward" in target.name():
            raise _refused(f"what {target} needs besides its results depends on its data", node)
        _argument(node, name, value)


def _argument(node: fx.Node, name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for one in value:
            _argument(node, name, one)
    elif isinstance(value, fx.Node):
        known = value.meta.get("val")
        if isinstance(known, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _unknown(f"{name} of {node.target} is a number that the step computes, {known}", node)
    elif not isinstance(value, PLAIN) and value is not torch.strided:
        raise _refused(f"{name} of {node.target} is {value}, of type {type(value).__name__}", node)


def _results(node: fx.Node) -> None:
    value = node.meta.get("val")
    for one in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(one, torch.Tensor):
            _tensor(one, f"a result of {node.target}", node)
        elif isinstance(one, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _unknown(f"a result of {node.target} is a number that depends on data, {one}", node)


def _tensor(value: torch.Tensor, what: str, node: fx.Node | None) -> None:
    if value.layout is not torch.strided:
        raise _refused(f"{what} has the layout {value.layout}", node)
    if value.dtype not in spelling.ELEMENTS:
        raise _refused(f"{what} has elements of type {value.dtype}", node)
    if value.device.type != "cpu":
        raise _refused(f"{what} is on {value.device}, while the graph is on the CPU", node)
    if any(not isinstance(size, int) for size in (*value.shape, *value.stride())):
        raise _unknown(f"{what} has a size that depends on data, {tuple(value.shape)}", node)
