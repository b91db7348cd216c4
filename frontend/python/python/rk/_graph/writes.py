"""Writes into views, each as one call that takes what is written and where.

AOTAutograd makes ``y[2:6, :3] = x`` a chain of functional calls: a copy of the part as it will be, that in a
copy of the rows around it, and those in a copy of ``y``. Each of them clones the whole storage of its
operand, of which PyTorch's tracing knows nothing: ``copy`` of three elements of a large buffer takes as many
bytes as the buffer. Here the chain becomes one scatter into ``y``, and where it cannot, because the offset in
the storage of an argument is not known, each call is given an operand with a storage of its own. Only data is
moved, so no bit changes.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import fx

from rk._graph import spelling
from rk._graph.joint import calls_of, is_getitem, results_of, show_again, storage_of, tensor_of

aten = torch.ops.aten
SCATTERS = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}
"""What shows the part of the operand that is replaced."""


@dataclasses.dataclass(frozen=True)
class Write:
    """A scatter: what it writes, and where in the storage of its operand."""

    part: torch.Tensor
    """The part that is replaced, as a view of the operand."""
    source: fx.Node
    """What is written there, in the shape of the part or one that is expanded to it."""


def merge(graph: fx.Graph) -> None:
    """Rewrites the graph in place."""
    if not calls_of(graph, (*SCATTERS, aten.copy.default)):
        return
    makers: dict[int, fx.Node] = {}
    """Which node made a storage."""
    writes: dict[fx.Node, Write] = {}
    replaced: set[fx.Node] = set()
    for node in list(graph.nodes):
        if node.target in SCATTERS and all(map(_is_known, (node, *node.args[:2]))):
            operand, source = node.args[:2]
            part = SCATTERS[node.target](tensor_of(operand), *node.args[2:], **node.kwargs)
            inner = makers.get(storage_of(tensor_of(source)))
            write = _within(writes.get(inner), inner, part, node) or Write(part, source)
            if _is_copy_of_a_tensor(write.source, part.dtype):
                write = Write(write.part, write.source.args[1])
            if write.source is not source and (write.part is part or _starts_at_its_storage(operand, makers)):
                node = _written_at_once(graph, node, write, part)
                replaced.add(source)
            writes[node] = write
        for one in results_of(node):
            if one is not None and one.layout is torch.strided:
                makers.setdefault(storage_of(one), node)
    _erase_unread(graph, {*writes, *replaced})
    for node in calls_of(graph, (*SCATTERS, aten.copy.default)):
        if _is_known(node.args[0]):
            operand = tensor_of(node.args[0])
            if _is_view(node.args[0]) or operand.untyped_storage().nbytes() > _span(operand):
                _own_operand(graph, node)


def _is_known(node: fx.Node) -> bool:
    """Whether sizes and strides are numbers: what depends on data is not planned, and left as it is."""
    value = tensor_of(node)
    return value is not None and all(isinstance(one, int) for one in (*value.shape, *value.stride()))


def _within(inner: Write | None, scatter: fx.Node | None, part: torch.Tensor, outer: fx.Node) -> Write | None:
    """The inner write, if the outer one puts what it made back to where the inner one's operand lies."""
    if inner is None:
        return None
    whole, made, back = tensor_of(scatter.args[0]), tensor_of(scatter), tensor_of(outer.args[1])
    same = whole.dtype == part.dtype == back.dtype and storage_of(whole) == storage_of(part)
    shifted = back.storage_offset() - made.storage_offset() + whole.storage_offset()
    alike = made.stride() == whole.stride() and back.stride() == part.stride() and back.shape == part.shape
    everything = back.numel() == made.numel() and shifted == part.storage_offset()
    return inner if same and alike and everything else None


def _is_copy_of_a_tensor(node: fx.Node, dtype: torch.dtype) -> bool:
    if node.target is not aten.copy.default or not isinstance(node.args[1], fx.Node):
        return False
    return tensor_of(node).dtype == dtype and tensor_of(node.args[1]) is not None


def _starts_at_its_storage(operand: fx.Node, makers: dict[int, fx.Node]) -> bool:
    """Whether offsets in the operand's storage are what tracing says, so that a part can be named by one."""
    value = tensor_of(operand)
    maker = makers.get(storage_of(value))
    if maker is None or maker.op != "call_function" or value.storage_offset() != 0:
        return False
    while maker.target in SCATTERS or maker.target is aten.copy.default:
        before = maker.args[0]
        maker = makers.get(storage_of(tensor_of(before)))
        if maker is not before:
            return False
    return True


def _written_at_once(graph: fx.Graph, node: fx.Node, write: Write, part: torch.Tensor) -> fx.Node:
    """The scatter of the innermost source."""
    source, shape = write.source, write.part.shape
    with graph.inserting_before(node):
        if tensor_of(source).shape != shape:
            source = graph.call_function(aten.expand.default, (source, list(shape)))
            source.meta = {**node.meta, "val": tensor_of(write.source).expand(shape)}
        if write.part is part:
            new = graph.call_function(node.target, (node.args[0], source, *node.args[2:]), node.kwargs)
        else:
            place = (list(shape), list(write.part.stride()), write.part.storage_offset())
            new = graph.call_function(aten.as_strided_scatter.default, (node.args[0], source, *place))
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    return new


def _span(value: torch.Tensor) -> int:
    """The bytes from the first element to the last."""
    if value.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return (last + 1) * value.itemsize


def _own_operand(graph: fx.Graph, node: fx.Node) -> None:
    """Gives a call that clones the storage of its operand one that holds nothing else."""
    shown, value = node.args[0], tensor_of(node.args[0])
    layout = (list(value.shape), list(value.stride()))
    if torch._debug_has_internal_overlap(value) == 1:
        return
    about = {"dtype": value.dtype, "device": value.device}
    with graph.inserting_before(node):
        own = graph.call_function(aten.empty_strided.default, layout, about)
        own.meta = {**node.meta, "val": value.new_empty_strided(*layout)}
        if node.target is not aten.copy.default:
            own = graph.call_function(aten.copy.default, (own, shown))
            own.meta = {**node.meta, "val": value.new_empty_strided(*layout)}
    node.args = (own, *node.args[1:])
    before = storage_of(tensor_of(node))
    node.meta = {**node.meta, "val": value.new_empty_strided(*layout)}
    for view in graph.nodes:
        # What shows the result shows another storage now.
        if view is not node and any(
            one is not None and storage_of(one) == before for one in results_of(view)
        ):
            show_again(view)


def _erase_unread(graph: fx.Graph, candidates: set[fx.Node]) -> None:
    """Calls that nobody reads any more, and the views that only they read."""
    for node in reversed(list(graph.nodes)):
        if node in candidates and not node.users:
            candidates.update(operand for operand in node.all_input_nodes if _is_view(operand))
            graph.erase_node(node)


def _is_view(node: fx.Node) -> bool:
    if node.op != "call_function" or spelling.written(node):
        return False
    value = tensor_of(node)
    call = node.args[0] if is_getitem(node) else node
    shown = (one for operand in call.all_input_nodes for one in results_of(operand))
    return value is not None and any(
        one is not None and storage_of(one) == storage_of(value) for one in shown
    )
