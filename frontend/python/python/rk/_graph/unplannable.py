"""What no plan can be made of is refused by name, before anything is read.

That is a value whose bytes nobody knows ahead: a tensor without a storage of its own (a sparse one), and one
whose size depends on data. And an object that is made of tensors, and read by what may run again: a plan
orders runs by the tensors that they make and read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from rk._graph import joint
from rk._graph.repetition import Manner, manner_of
from rk.errors import CompileError

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ELSEWHERE = "or torch.compiler.disable keeps the module out of the graph, and out of the plan"


def check(graph: fx.Graph) -> None:
    """Raises CompileError, which names operator and module, and says what helps."""
    made = [(node, node.meta.get("val")) for node in graph.nodes]
    computes = any(issubclass(kind, _SYMBOLIC) for kind in {type(value) for _, value in made})
    inputs = len(graph.find_nodes(op="placeholder"))
    # What computes a value tells more than the input of the backward pass that has its size.
    for node, value in (*made[inputs:], *made[:inputs]):
        if isinstance(value, torch.Tensor):
            _check_tensor(node, value)
        else:
            for one in joint.results_of(node):
                if one is not None:
                    _check_tensor(node, one)
            if joint.is_call(node) and joint.is_opaque(node):
                _check_object(node)
        if computes and joint.is_call(node):
            _check_arguments(node)


def _check_tensor(node: fx.Node, value: torch.Tensor) -> None:
    if value.layout is torch.strided and not (value.is_quantized or value._has_symbolic_sizes_strides):
        return
    if reason := _reason(value):
        raise CompileError(f"{_named(node)} {reason}")


def _reason(value: torch.Tensor) -> str:
    if value.layout is not torch.strided:
        kind = str(value.layout).removeprefix("torch.")
        return (
            f"is a tensor of layout {kind}, whose bytes are not known before it is there: rk plans dense "
            f"tensors. Embedding and EmbeddingBag have dense gradients with sparse=False; {_ELSEWHERE}"
        )
    if value.is_quantized:
        return f"is a quantized tensor ({value.dtype}), which rk does not plan; {_ELSEWHERE}"
    if value._has_symbolic_sizes_strides and any(
        isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride())
    ):
        return (
            f"has the size {tuple(value.shape)}, which depends on data: rk plans steps of known sizes. With "
            "torch._dynamo.config.capture_dynamic_output_shape_ops and capture_scalar_outputs off (they are "
            "on with fullgraph=True), Dynamo ends the graph there, and plans are made for both sides; "
            f"{_ELSEWHERE}"
        )
    return ""


def _check_arguments(call: fx.Node) -> None:
    found: list[Any] = []

    def look(one: Any) -> Any:
        value = one.meta.get("val") if isinstance(one, fx.Node) else one
        if isinstance(value, _SYMBOLIC):
            found.append(value)
        return one

    fx.node.map_aggregate((call.args, call.kwargs), look)
    if found:
        raise CompileError(
            f"{_named(call)} takes the number {found[0]}, which is computed from data: rk plans steps that "
            "are known. With torch._dynamo.config.capture_scalar_outputs off (it is on with fullgraph=True), "
            f"Dynamo ends the graph where it is read, and plans are made for both sides; {_ELSEWHERE}"
        )


def _check_object(call: fx.Node) -> None:
    given = [one for one in call.all_input_nodes if joint.tensor_of(one) is not None]
    again = [one for one in (call, *call.users) if one.op == "call_function" and manner_of(one) < Manner.ONCE]
    if given and again:
        raise CompileError(
            f"{_named(call)} makes an object that is no tensor out of tensors, and {_named(again[0])} may "
            "run again: rk orders runs by tensors. What is not given to rk.allow_recompute runs once, in its "
            f"place; {_ELSEWHERE}"
        )


def _named(node: fx.Node) -> str:
    """What a node is, for people."""
    if node.op != "call_function":
        return f"the input {node.target}"
    path = joint.module_path(node)
    place = f" of module '{path}'" if path else ""
    late = " (backward)" if joint.is_backward(node) else ""
    return f"{node.target}{place}{late}"
