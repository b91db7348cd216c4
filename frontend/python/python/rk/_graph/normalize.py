"""Rewrites of a joint graph before it is read, so that what can be planned is planned. No bit of the result
changes.

* Batch norm comes out of AOTAutograd as a functional operator whose new running statistics are copied into
  the buffers at the end. Read that way, its input could never be normalized a second time: a second run
  would read the updated buffers. The same kernel in its in-place form updates them while it runs, and can
  be run again without them, unless they alone tell its precision.
* Operators that read a tensor for its shape only (``full_like``, ``new_zeros``) become ones that read none,
  as ``--rk-dataflow`` does; otherwise the tensor would have to stay for its shape.
* What forward computes twice from the same values is computed once, as PyTorch's own partitioner does. It may
  still run again.
* A write into a part of a tensor, which comes as a chain of calls, becomes one call
  (:mod:`rk._graph.writes`).
* A forward value that overwrites an argument must not change what the backward pass reads: a reader of the
  old value gets a copy.
* The statistics of norms get the element types that they have (:mod:`rk._graph.statistics`).
* What the caller may change before the backward pass is copied where that is cheap (:mod:`rk._graph.loans`).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from rk._graph import loans, spelling, statistics, writes
from rk._graph.joint import (
    calls_of,
    is_backward,
    is_backward_only,
    results_of,
    show_again,
    storage_of,
    storages_of,
    tensor_of,
)
from rk._graph.repetition import Manner, is_pure, manner_of

aten = torch.ops.aten
LIKE = {
    aten.full_like.default: (aten.full.default, 1),
    aten.zeros_like.default: (aten.full.default, 0),
    aten.ones_like.default: (aten.full.default, 1),
    aten.new_zeros.default: (aten.full.default, 0),
    aten.new_ones.default: (aten.full.default, 1),
    aten.new_full.default: (aten.full.default, 2),
    aten.empty_like.default: (aten.empty_strided.default, None),
    aten.new_empty.default: (aten.empty_strided.default, None),
    aten.new_empty_strided.default: (aten.empty_strided.default, None),
}
FILL = {
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}


def normalize(graph: fx.Graph, num_fwd_outputs: int, *, fuses: bool = False) -> None:
    """Rewrites the graph in place; so many of its results are those of the forward pass. ``fuses``: kernels
    are made of it afterwards, of a chain of writes one.
    """
    _complete_tags(graph, num_fwd_outputs)
    statistics.settle(graph)
    for node in calls_of(graph, LIKE):
        _without_shape_operand(graph, node)
    if not fuses:
        writes.merge(graph)
    _once(graph)
    _running_statistics(graph)
    _keep_old_values(graph)
    loans.settle_marks(graph)
    results = graph.output_node().args[0]
    loans.compute_again(graph, results[:num_fwd_outputs])
    loans.copy_small(graph, results[num_fwd_outputs:])


def _complete_tags(graph: fx.Graph, num_fwd_outputs: int) -> None:
    """Marks as backward what follows from a tangent, and what of the unmarked only the backward pass reads:
    passes of PyTorch, and the backward of a custom function, make nodes without saying so.
    """
    late: set[fx.Node] = set()
    for node in graph.nodes:
        if is_backward(node):
            late.add(node)
        elif is_backward_only(node) or not late.isdisjoint(node.all_input_nodes):
            late.add(node)
            if node.op == "call_function":
                node.meta["partitioner_tag"] = "is_backward"
    early = {node for node in graph.output_node().args[0][:num_fwd_outputs] if isinstance(node, fx.Node)}
    for node in reversed(graph.nodes):
        if node.op != "call_function" or "partitioner_tag" in node.meta or node in early:
            continue
        if manner_of(node) is not Manner.PURE or spelling.written(node):
            continue
        if all(user.op == "output" or is_backward(user) for user in node.users):
            node.meta["partitioner_tag"] = "is_backward"


def _once(graph: fx.Graph) -> None:
    """Merges calls of the forward pass that give the same bits. Left alone is what draws random numbers, is
    not known, is called for an effect or with the user's word on recomputation, shows what is overwritten, or
    is returned.
    """
    nodes = list(graph.nodes)
    returned = [node for node in nodes[-1].all_input_nodes]
    written = [node.args[0] for node in nodes if node.target is aten.copy_.default]
    unsure = {
        storage_of(one) for node in (*returned, *written) for one in results_of(node) if one is not None
    }
    known: dict[Any, list[fx.Node]] = {}
    plain: dict[int, bool] = {}
    for node in nodes:
        if node.op != "call_function" or is_backward(node) or "recompute" in node.meta:
            continue
        target = id(node.target)
        is_plain = plain.get(target)
        if is_plain is None:
            is_plain = plain[target] = _is_plain(node.target)
        if not is_plain and not _gives_the_same(node):
            continue
        try:
            alike = known.setdefault((target, node.args, *node.kwargs.items()), [])
        except TypeError:
            # An object among its arguments that Python cannot look up.
            continue
        # A number's type is seen in how it is written: 1 is neither 1.0 nor True.
        first = next((one for one in alike if _written(one) == _written(node)), None)
        if first is None:
            alike.append(node)
            continue
        involved = (*results_of(node), *results_of(first), *map(tensor_of, node.all_input_nodes))
        if not any(one is not None and storage_of(one) in unsure for one in involved):
            views = _views_of(node) if storages_of(node) != storages_of(first) else ()
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            for view in views:
                show_again(view)


def _is_plain(target: Any) -> bool:
    """Whether all calls of an operator with the same values give the same bits, and do nothing else."""
    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target is spelling.RUNNING_STATISTICS[0]:
        return False
    about = spelling.operator(target)
    return is_pure(target) and not about.is_effect and not about.written


def _gives_the_same(call: fx.Node) -> bool:
    """The same of one call, whose arguments and device tell."""
    is_effect = spelling.operator(call.target).is_effect or spelling.written(call)
    is_known = isinstance(call.target, torch._ops.OpOverload)
    return is_known and not is_effect and manner_of(call) is Manner.PURE


def _written(call: fx.Node) -> str:
    return f"{call.args} {call.kwargs}"


def _without_shape_operand(graph: fx.Graph, node: fx.Node) -> None:
    value = tensor_of(node)
    if value is None or value.storage_offset() != 0:
        return
    target, fill = LIKE[node.target]
    size, kwargs = list(value.shape), {"dtype": value.dtype, "device": value.device}
    if target is aten.full.default:
        if not value.is_contiguous() or value.layout is not torch.strided:
            return
        constant = FILL.get(node.target)
        args = (size, node.args[fill] if constant is None else constant)
    else:
        args = (size, list(value.stride()))
    if any(isinstance(argument, fx.Node) for argument in args):
        return
    with graph.inserting_before(node):
        new = graph.call_function(target, args, kwargs)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _running_statistics(graph: fx.Graph) -> None:
    """Turns chains of functional batch norms, whose last statistics are copied into buffers, into in-place
    ones.
    """
    copies = {}
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        if isinstance(node.args[1], fx.Node) and node.args[0].op == "placeholder":
            copies[node.args[1]] = node
    functional = aten._native_batch_norm_legit_functional.default
    for node in list(graph.find_nodes(op="call_function", target=functional)):
        if not node.args[5] or node.args[3].op != "placeholder" or node.args[4].op != "placeholder":
            continue
        if statistics.are_by_state(node):
            continue
        new_statistics = [user for user in node.users if user.args[1] in (3, 4)]
        endings = [_only_copied(value, copies, node) for value in new_statistics]
        if len(endings) != 2 or any(ending is None for ending in endings):
            continue
        targets = {ending.args[0] for ending in endings}
        readers = {user for target in targets for user in target.users}
        if targets != {node.args[3], node.args[4]} or len(readers - {node, *endings} - _backwards(node)) > 0:
            continue
        _in_place(graph, node, new_statistics, endings)


def _backwards(node: fx.Node) -> set[fx.Node]:
    backward = aten.native_batch_norm_backward.default
    return {user for getitem in node.users for user in getitem.users if user.target is backward}


def _only_copied(value: fx.Node, copies: dict[fx.Node, fx.Node], norm: fx.Node) -> fx.Node | None:
    """The copy of a new statistic into its buffer, if nothing else reads it (in training, the backward only
    seems to).
    """
    copy = copies.get(value)
    others = set(value.users) - {copy} - _backwards(norm)
    return copy if copy is not None and not others else None


def _in_place(graph: fx.Graph, node: fx.Node, statistics: list[fx.Node], copies: list[fx.Node]) -> None:
    for backward in _backwards(node):
        # In training the saved statistics are used, the running ones are not read.
        backward.args = (*backward.args[:3], None, None, *backward.args[5:])
    for copy in copies:
        graph.erase_node(copy)
    for value in statistics:
        graph.erase_node(value)
    with graph.inserting_before(node):
        new = graph.call_function(aten.native_batch_norm.default, node.args, node.kwargs)
    new.meta = {**node.meta, "val": tuple(node.meta["val"][:3])}
    for getitem in list(node.users):
        assert getitem.target is operator.getitem
        getitem.args = (new, getitem.args[1])
    graph.erase_node(node)


def _keep_old_values(graph: fx.Graph) -> None:
    for copy in list(graph.find_nodes(op="call_function", target=aten.copy_.default)):
        target = copy.args[0]
        if target.op != "placeholder" or is_backward(copy):
            continue
        shown = [node for node in graph.nodes if node is not copy and _shows(node, target)]
        if any(is_backward(user) for node in shown for user in node.users):
            _read_a_copy(graph, target, copy, shown[1:])


def _shows(node: fx.Node, target: fx.Node) -> bool:
    """Whether a node is the target, or a view of it."""
    storage = storage_of(tensor_of(target))
    return any(one is not None and storage_of(one) == storage for one in results_of(node))


def _read_a_copy(graph: fx.Graph, target: fx.Node, copy: fx.Node, views: list[fx.Node]) -> None:
    first = next(node for node in graph.nodes if node.op == "call_function")
    with graph.inserting_before(first):
        old = graph.call_function(aten.clone.default, (target,))
    old.meta = {"val": tensor_of(target).clone(), "partitioner_tag": "is_forward"}
    target.replace_all_uses_with(old, lambda user: user not in (copy, old))
    for view in views:
        show_again(view)


def _views_of(value: fx.Node) -> list[fx.Node]:
    """What shows the storages of a value, each after what it is a view of."""
    storages = storages_of(value)
    found: dict[fx.Node, None] = {}
    ahead = list(reversed(value.users))
    while ahead:
        node = ahead.pop()
        if not storages.isdisjoint(storages_of(node)):
            found.pop(node, None)
            found[node] = None
            ahead.extend(reversed(node.users))
    return list(found)
