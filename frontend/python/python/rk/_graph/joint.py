"""What a node of AOTAutograd's joint graph is: its tensors, its pass, its module, the storage that it shares.

Values are known by the storages of their fake tensors, which alias as the real ones will.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.checkpoint import CheckpointPolicy

Tensors = tuple[torch.Tensor | None, ...]

_AGAIN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_PLAIN = (torch.Tensor, int, float, complex, str, tuple, list, torch.SymInt, torch.SymFloat, torch.SymBool)
"""What a value is that is no opaque object."""


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of a node that has exactly one."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def is_checkpointed(node: fx.Node) -> bool:
    """Whether the user wants a value of the forward pass computed again (``torch.utils.checkpoint``)."""
    policy = node.meta.get("recompute")
    return policy is not None and policy in _AGAIN and not is_backward(node)


def is_opaque(node: fx.Node) -> bool:
    """Whether the value of a node is an object that PyTorch hands through a graph as it is, such as the
    ``DeviceMesh`` of a ``DTensor``: neither a tensor nor a number.
    """
    value = node.meta.get("val")
    return value is not None and not isinstance(value, _PLAIN)


def unwrapped(graph: fx.Graph, arguments: Iterable[int]) -> list[int]:
    """The places of arguments among the placeholders of a graph. AOTAutograd counts the former before it
    takes tensor subclasses apart: a ``DTensor`` is one argument, and its tensor and ``DeviceMesh`` are two
    placeholders.
    """
    parts: list[list[int]] = []
    last = None
    for place, node in enumerate(graph.find_nodes(op="placeholder")):
        described = whole = node.meta.get("desc")
        while type(whole).__name__.startswith("Subclass"):
            whole = whole.base
        if whole is described or whole != last:
            parts.append([])
        parts[-1].append(place)
        last = None if whole is described else whole
    return [place for one in arguments for place in parts[one]]


def static(graph: fx.Graph, places: Iterable[int] | None, given: Sequence[Any]) -> list[int]:
    """The places of parameters and buffers among the placeholders of a graph.

    Args:
        graph: The joint graph.
        places: Which arguments they are, as AOTAutograd says. It does not say so where one argument is a view
            of another one that is overwritten, because it then calls the graph with other arguments; the
            parameters are found all the same.
        given: What the graph that AOTAutograd has traced is called with.
    """
    return unwrapped(graph, places or ()) or [
        place
        for place, node in enumerate(graph.find_nodes(op="placeholder"))
        if type(one := node.meta.get("desc")).__name__ == "PlainAOTInput"
        and one.idx < len(given)
        and isinstance(given[one.idx], nn.Parameter)
    ]


def results_of(node: fx.Node) -> Tensors:
    """The results of a call, flat; None for what is no tensor or is left undefined."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(one if isinstance(one, torch.Tensor) else None for one in flat(value))


def flat(value: Any) -> Iterator[Any]:
    """What a call returns, without the lists that are among its results."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from flat(one)
    else:
        yield value


def picked(node: fx.Node) -> tuple[fx.Node, int]:
    """The call that a ``getitem`` picks from, and which of its results it picks; of a list, the first one."""
    source, index = node.args
    before = sum(1 for _ in flat(source.meta["val"][:index]))
    if not is_getitem(source):
        return source, before
    call, place = picked(source)
    return call, place + before


def has_results(node: fx.Node) -> bool:
    """Whether the call returns several values, which are read through ``getitem``."""
    return isinstance(node.meta.get("val"), (tuple, list))


def storage_of(tensor: torch.Tensor) -> int:
    """The identity of the storage."""
    return tensor.untyped_storage()._cdata


def is_getitem(node: fx.Node) -> bool:
    """Whether the node picks one result of a call."""
    return node.target is operator.getitem


def storages_of(node: fx.Node) -> set[int]:
    """The storages of what a node makes."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return {storage_of(value)}
    return {storage_of(one) for one in results_of(node) if one is not None}


def second_run(graph: fx.Graph, node: fx.Node, args: Any, kwargs: Any) -> fx.Node:
    """The call of a node once more, in the backward half, with these arguments."""
    made = graph.call_function(node.target, args, kwargs)
    values = fx.node.map_arg((args, kwargs), lambda one: one.meta["val"])
    # Its fake tensors must have storages of their own, or share those of other second runs.
    with torch.no_grad():
        value = node.target(*values[0], **values[1])
    made.meta = {**node.meta, "val": value, "partitioner_tag": "is_backward"}
    made.meta.pop("recompute", None)
    return made


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """The fake tensor of a copy, as ``clone`` makes it."""
    if type(tensor) is FakeTensor and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        # Asking PyTorch takes ten times as long.
        with torch._C._DisableTorchDispatch():
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return FakeTensor(tensor.fake_mode, made, tensor.device)
    with torch.no_grad():
        return tensor.clone()


def show_again(view: fx.Node) -> None:
    """Lets the fake tensors of a view of what was replaced share the storage of what it shows now."""
    args, kwargs = fx.node.map_arg((view.args, view.kwargs), lambda node: node.meta["val"])
    with torch.no_grad():
        view.meta = {**view.meta, "val": view.target(*args, **kwargs)}


def calls_of(graph: fx.Graph, targets: Iterable[Any]) -> list[fx.Node]:
    """The calls of these operators, in their order."""
    found = (graph.find_nodes(op="call_function", target=target, sort=False) for target in targets)
    return sorted(node for nodes in found for node in nodes)


def is_call(node: fx.Node) -> bool:
    """Whether the node calls an operator."""
    return node.op == "call_function" and node.target is not operator.getitem


def is_tangent(node: fx.Node) -> bool:
    """Whether the node is a gradient that comes in from outside of the graph."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_backward_only(node: fx.Node) -> bool:
    """Whether the node is an input that exists in the backward pass only."""
    if node.op != "placeholder":
        return False
    target = str(node.target)
    late = ("tangents", "bwd_seed", "bwd_base_offset", "bwd_rng_state")
    return target == "backward_state" or any(one in target for one in late)


def is_backward(node: fx.Node) -> bool:
    """Whether AOTAutograd traced the node in the backward pass."""
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


_PATH: dict[str, str] = {}


def module_path(node: fx.Node) -> str:
    """The path of the module that the node was traced in, such as ``layer1.0.conv1``; empty at the root."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    return path_of(str(next(reversed(stack.values()))[0]))


def path_of(raw: str) -> str:
    """The path of a module as users write it; Dynamo has ``L['self']._modules['layer1'][0]``."""
    path = _PATH.get(raw)
    if path is None:
        path = re.sub(r"^L\['[^']*'\](\.__self__)?\.?", "", raw)
        path = re.sub(r"_modules\['([^']*)'\]", r"\1", path)
        path = re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path).strip(".")
        _PATH[raw] = path
    return path
