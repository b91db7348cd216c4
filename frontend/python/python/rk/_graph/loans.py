"""What the caller may change between forward and backward, and who may still read it then (law S9).

All that goes into a step, and all that forward hands out, is the caller's: buffers move, biases are updated,
masks are rewritten for the next micro-batch. Of what the backward pass reads, autograd notices that (a
version check), and says so. All else is *lent until the hand-over*: nothing but what PyTorch itself computes
in backward may read it afterwards. Lent, too, is what the backward pass reads without a version check, a
tensor that a custom function keeps on its ``ctx`` without ``save_for_backward``.

What a checkpoint of the user's hands out is lent as well: PyTorch computes it again, so the backward half is
given operators that do (:func:`compute_again`).

An argument that is small beside what is made of it is copied (:func:`copy_small`). Those who read the copy
may run again, the copying itself may not; whether the copy is kept until then is the plan's decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from rk._graph import repetition, spelling
from rk._graph.joint import (
    calls_of,
    copied,
    is_backward,
    is_backward_only,
    is_checkpointed,
    is_getitem,
    results_of,
    second_run,
    show_again,
    storages_of,
    tensor_of,
)

UNCHECKED = "saved_tensor_with_no_vc_check"
"""AOTAutograd's mark on what is saved for backward without a version check."""
COPY = "rk_copy"
"""The mark on a copy that is made here."""
SMALL = 8
"""How many times larger than an argument must be what is made of it, so that the argument is copied."""


def version(tensor: torch.Tensor) -> int:
    """How often a tensor has been written to, as autograd counts. It does not count for tensors of inference
    mode, and saves none of them for backward.
    """
    return 0 if tensor.is_inference() else tensor._version


class Shown:
    """Which arguments of a graph its nodes show."""

    def __init__(self, graph: fx.Graph) -> None:
        """As long as no fake tensor of the graph is exchanged."""
        self._storages = set[int]().union(*map(storages_of, graph.find_nodes(op="placeholder")))

    def by(self, node: fx.Node) -> set[fx.Node]:
        """The arguments whose storage a node shows: itself, or what it is a view of."""
        if node.op == "placeholder":
            return {node}
        mine = storages_of(node)
        found: set[fx.Node] = set()
        if not mine.isdisjoint(self._storages):
            for source in node.all_input_nodes:
                if not mine.isdisjoint(storages_of(source)):
                    found |= self.by(source)
        return found


def settle_marks(graph: fx.Graph) -> None:
    """Makes AOTAutograd's marks hold for an argument and its views alike: what backward reads anywhere with a
    version check has one, whichever of them is saved in the end.
    """
    if not any(node.meta.get(UNCHECKED) for node in graph.nodes):
        return
    read, checked, shown = set(), set(), Shown(graph)
    for node in _read_late(graph, ()):
        arguments = shown.by(node)
        read |= arguments
        if not node.meta.get(UNCHECKED):
            checked |= arguments
    for node in graph.nodes:
        arguments = shown.by(node) & read
        if arguments and node.op != "output":
            node.meta[UNCHECKED] = arguments.isdisjoint(checked)


def _read_late(graph: fx.Graph, gradients: Iterable[fx.Node | None]) -> Iterable[fx.Node]:
    """What backward reads of the arguments and of what forward made; ``gradients`` are its results."""
    backward: set[fx.Node] = set()
    for node in graph.nodes:
        if is_backward(node):
            backward.add(node)
            if node.op == "call_function":
                yield from (source for source in node.all_input_nodes if source not in backward)
    for node in gradients:
        if isinstance(node, fx.Node) and node not in backward:
            yield node


def is_dropped(node: fx.Node) -> bool:
    """Whether a checkpoint of the user's lets PyTorch compute a value of forward again instead of saving it:
    backward does not read it, whoever changes it. What another region starts from is saved.
    """
    call = node
    while is_getitem(call) and not is_checkpointed(call):
        call = call.args[0]
    if not is_checkpointed(call) or spelling.operator(call.target).is_effect:
        return False
    return all(not is_checkpointed(user) or region(user) == region(call) for user in node.users)


def region(node: fx.Node) -> Any:
    """Which checkpoint of the user's a node is in."""
    return node.meta.get("ac_graph_id")


def compute_again(graph: fx.Graph, outputs: Sequence[fx.Node]) -> None:
    """Lets backward compute for itself what forward hands out and a checkpoint of the user's drops: the
    caller may change it in between, as without rk. All else of the region is left to the plan.
    """
    if not any(map(is_checkpointed, graph.nodes)):
        return
    handed_out = set().union(*(storages_of(node) for node in outputs if isinstance(node, fx.Node)))
    again: dict[fx.Node, fx.Node] = {}
    first = None
    for reader in [node for node in graph.nodes if is_backward(node) and node.op == "call_function"]:
        for node in reader.all_input_nodes:
            if is_backward(node) or not _is_in(handed_out, node) or not _may_be_second(node, handed_out):
                continue
            first = first or reader
            with graph.inserting_before(first):
                reader.replace_input_with(node, _second(graph, node, handed_out, again))


def _is_in(storages: set[int], node: fx.Node) -> bool:
    return node.op == "call_function" and not storages.isdisjoint(storages_of(node))


def _may_be_second(node: fx.Node, handed_out: set[int]) -> bool:
    """Whether the value and all that it is made of among what is handed out is dropped, and repeatable."""
    sources = (one for one in node.all_input_nodes if _is_in(handed_out, one))
    return (
        is_dropped(node)
        and (is_getitem(node) or repetition.manner_of(node) is repetition.Manner.PURE)
        and all(_may_be_second(one, handed_out) for one in sources)
    )


def _second(graph: fx.Graph, node: fx.Node, handed_out: set[int], again: dict[fx.Node, fx.Node]) -> fx.Node:
    if not _is_in(handed_out, node):
        return node
    if node not in again:
        args, kwargs = fx.node.map_arg(
            (node.args, node.kwargs), lambda one: _second(graph, one, handed_out, again)
        )
        again[node] = second_run(graph, node, args, kwargs)
    return again[node]


class Loans:
    """What of a joint graph is lent until the hand-over."""

    def __init__(
        self, graph: fx.Graph, outputs: Sequence[fx.Node], gradients: Sequence[fx.Node | None]
    ) -> None:
        """``outputs`` are handed over, ``gradients`` are what backward gives."""
        checked: set[fx.Node] = set()
        storages: set[int] = set()
        self.viewed: set[fx.Node] = set()
        """The arguments of which backward reads nothing but views that forward has made. Those show the same
        memory even if the caller gives the argument another one (``x.data = y``).
        """
        shown = Shown(graph)
        late = {node: shown.by(node) for node in dict.fromkeys(_read_late(graph, gradients))}
        for node, arguments in late.items():
            self.viewed.update(one for one in arguments if one not in late)
            if not node.meta.get(UNCHECKED):
                checked |= arguments
                storages |= storages_of(node)
        self.arguments = {
            node
            for node in graph.find_nodes(op="placeholder")
            if tensor_of(node) is not None and not is_backward_only(node) and node not in checked
        }
        """The arguments that are lent."""
        self.outputs, self.checked_outputs = set[int](), set[int]()
        """By place, the outputs that are lent; those that backward reads with a version check."""
        for place, node in enumerate(outputs):
            if isinstance(node, fx.Node) and tensor_of(node) is not None and not shown.by(node):
                seen = not storages.isdisjoint(storages_of(node))
                (self.checked_outputs if seen else self.outputs).add(place)


def copy_small(graph: fx.Graph, gradients: Iterable[fx.Node | None]) -> None:
    """Gives a copy of a lent argument to those forward nodes that make much more of it than it is;
    ``gradients`` are what backward gives.
    """
    given = {node for node in gradients if node is not None}
    for argument in graph.find_nodes(op="placeholder"):
        tensor = tensor_of(argument)
        if tensor is None or tensor.layout is not torch.strided or is_backward_only(argument):
            continue
        storages, least = storages_of(argument), SMALL * tensor.nbytes
        readers = [user for user in argument.users if _makes_much(user, argument, storages, least)]
        if not readers or _is_checked(argument, storages, given):
            continue
        value = copied(tensor)
        if value.stride() != tensor.stride():
            continue
        first = min(readers)
        with graph.inserting_before(first):
            copy = graph.create_node("call_function", torch.ops.aten.clone.default, (argument,), name="clone")
        copy.meta = {"val": value, "partitioner_tag": "is_forward", COPY: True}
        for key in ("nn_module_stack", "fwd_nn_module_stack"):
            if key in first.meta:
                copy.meta[key] = first.meta[key]
        for reader in readers:
            reader.replace_input_with(argument, copy)
            if not storages.isdisjoint(storages_of(reader)):
                show_anew(reader)


def _is_checked(shown: fx.Node, storages: set[int], gradients: set[fx.Node]) -> bool:
    """Whether backward reads an argument in these storages, or a view of it, and autograd would find it
    changed. ``shown`` is the argument, or a view.
    """
    if not shown.meta.get(UNCHECKED):
        late = any(is_backward(user) and user.op == "call_function" for user in shown.users)
        if late or shown in gradients:
            return True
    early = (user for user in shown.users if user.op == "call_function" and not is_backward(user))
    views = (user for user in early if not storages.isdisjoint(storages_of(user)))
    return any(_is_checked(view, storages, gradients) for view in views)


def copies(graph: fx.Graph) -> list[fx.Node]:
    """What :func:`copy_small` has added."""
    return [node for node in calls_of(graph, [torch.ops.aten.clone.default]) if node.meta.get(COPY)]


def _makes_much(reader: fx.Node, source: fx.Node, storages: set[int], least: int) -> bool:
    """Whether a forward node, or all who read its view, give at least so many bytes; ``storages`` are those
    of the source.
    """
    if reader.op != "call_function" or is_backward(reader) or not reader.users:
        return False
    if not storages.isdisjoint(storages_of(reader)):
        # Of as_strided it matters where in its storage the source begins.
        is_safe = reader.target is not torch.ops.aten.as_strided.default
        return is_safe and all(_makes_much(user, reader, storages, least) for user in reader.users)
    if not isinstance(reader.target, torch._ops.OpOverload) or source in _written(reader):
        return False
    value = reader.meta.get("val")
    made = (value,) if isinstance(value, torch.Tensor) else results_of(reader)
    return sum([one.nbytes for one in made if one is not None]) >= least


def _written(call: fx.Node) -> list[fx.Node]:
    """What a call overwrites."""
    names = spelling.written(call)
    if not names:
        return []
    named = spelling.in_schema_order(spelling.operator(call.target), call)
    return [value for name, value in named if name in names]


def _is_view(node: fx.Node, source: fx.Node) -> bool:
    return not storages_of(node).isdisjoint(storages_of(source))


def show_anew(view: fx.Node) -> None:
    """Shows a view again, and the views of it."""
    users = [user for user in view.users if _is_view(user, view)]
    show_again(view)
    for user in users:
        show_anew(user)
