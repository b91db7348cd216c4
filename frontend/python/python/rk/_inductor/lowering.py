"""A graph as Inductor lowers and schedules it, with no code made of it.

What is called here is private to PyTorch, and so is most of what :mod:`.reading` reads of the result. The
steps are those of ``torch._inductor.compile_fx`` between the partition and the making of code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.inductor_prims
from torch import fx
from torch._inductor import ir
from torch._inductor.virtualized import V

from rk._graph import joint
from rk._graph.copies import copied
from rk.errors import CompileError


def outputs_of(gm: fx.GraphModule) -> list[Any]:
    """What a graph returns, by place."""
    return list(gm.graph.output_node().args[0])


def in_strides(gm: fx.GraphModule, strides: Mapping[str, tuple[int, ...]]) -> fx.GraphModule:
    """The graph once more, with arguments that lie in memory as named."""
    own = copied(gm)
    for node in own.graph.find_nodes(op="placeholder"):
        if node.name in strides:
            node.meta["val"] = laid_out(node.meta["val"], strides[node.name])
    return own


def laid_out(value: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    """A traced tensor in these strides, if it fits into its memory so."""
    if strides is None or len(strides) != value.dim() or strides == value.stride():
        return value
    if not value.is_contiguous() and not torch.ops.aten.is_non_overlapping_and_dense(value):
        return value
    with value.fake_mode:
        return value.as_strided(value.size(), strides, value.storage_offset())


def in_mode(gm: fx.GraphModule, mode: Any) -> fx.GraphModule:
    """The graph once more, of tensors that are traced in this mode; they share memory as before."""
    own = copied(gm)
    storages: dict[int, torch.Tensor] = {}
    known: dict[int, torch.Tensor] = {}

    def of(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(of, value))
        if isinstance(value, dict):
            return {name: of(one) for name, one in value.items()}
        if not isinstance(value, torch._subclasses.FakeTensor) or value.fake_mode is mode:
            return value
        if id(value) not in known:
            known[id(value)] = _again(value, storages, mode)
        return known[id(value)]

    for node in own.graph.nodes:
        # Operators of the user's have their arguments beside them, in the strides of eager execution.
        for name in ("val", "eager_input_vals"):
            if name in node.meta:
                node.meta[name] = of(node.meta[name])
    return own


def _again(value: torch.Tensor, storages: dict[int, torch.Tensor], mode: Any) -> torch.Tensor:
    """A tensor once more in another mode; ``storages`` are those that are there, by what they stand for."""
    storage = joint.storage_of(value)
    with mode, torch.no_grad():
        if storage not in storages:
            size = value.untyped_storage().nbytes()
            storages[storage] = torch.empty(size, dtype=torch.uint8, device=value.device)
        memory = storages[storage]
        whole = memory[: len(memory) // value.dtype.itemsize * value.dtype.itemsize].view(value.dtype)
        return whole.as_strided(value.size(), value.stride(), value.storage_offset())


def as_autograd_keeps(gm: fx.GraphModule, parameters: Mapping[int, torch.Tensor]) -> fx.GraphModule:
    """The backward graph once more, with gradients of parameters in the strides in which autograd keeps them.
    It would copy another one, with all others still there. ``parameters`` are traced, by the places of their
    gradients.
    """
    from torch._inductor import compile_fx

    own = copied(gm)
    # As Inductor does: a view of what was contiguous may be one of another layout now.
    compile_fx.view_to_reshape(own)
    with torch.no_grad(), V.set_fake_mode(fake_mode(own)):
        compile_fx.fake_tensor_prop(
            own, [node.meta["val"] for node in own.graph.find_nodes(op="placeholder")]
        )
    outputs = outputs_of(own)
    for place, parameter in parameters.items():
        node = outputs[place]
        value = joint.tensor_of(node)
        if value is None or _is_kept(value.stride(), parameter):
            continue
        strides = _kept_strides(parameter)
        with own.graph.inserting_before(own.graph.output_node()):
            outputs[place] = copy = own.graph.call_function(LAY_OUT, (node, strides))
        copy.meta = dict(node.meta)
        with value.fake_mode:
            copy.meta["val"] = value.new_empty_strided(value.size(), strides)
    own.graph.output_node().args = (tuple(outputs),)
    return own


def is_kept(gradient: Any, parameter: torch.Tensor | None) -> bool:
    """Whether autograd keeps a buffer as the gradient of a parameter; it copies one in other strides."""
    strides = None if parameter is None else strides_of(gradient, parameter)
    return strides is None or _is_kept(strides, parameter)


def _is_kept(strides: Sequence[int], parameter: torch.Tensor) -> bool:
    kept = zip(parameter.size(), strides, _kept_strides(parameter), strict=True)
    return all(have == wanted for length, have, wanted in kept if length != 1)


def _kept_strides(parameter: torch.Tensor) -> tuple[int, ...]:
    """Its own, if it is dense; otherwise those of a contiguous tensor."""
    if torch.ops.aten.is_non_overlapping_and_dense(parameter):
        return tuple(parameter.stride())
    return tuple(parameter.new_empty(parameter.size()).stride())


@contextlib.contextmanager
def scheduled(gm: fx.GraphModule, visible: int, *, is_backward: bool) -> Iterator[Any]:
    """Inductor's ``GraphLowering`` of the graph, fused and ordered. The first ``visible`` outputs keep their
    strides. ``gm`` goes through Inductor's passes: its nodes are those that the kernels are made of.
    """
    from torch._inductor import compile_fx, debug
    from torch._inductor.choices import InductorChoices
    from torch._inductor.graph import GraphLowering

    inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    fakes = fake_mode(gm)
    gm.graph.output_node().meta["user_visible_output_idxs"] = [
        place for place, one in enumerate(outputs_of(gm)[:visible]) if isinstance(one, fx.Node)
    ]
    patch = torch._inductor.config.patch(_post_fusion_custom_pass=None)
    with patch, torch.no_grad(), V.set_fake_mode(fakes):
        compile_fx.view_to_reshape(gm)
        compile_fx.fake_tensor_prop(gm, inputs)
        compile_fx._recursive_record_original_output_strides(gm)
        compile_fx._recursive_post_grad_passes(gm, is_inference=False)
        make = functools.partial(
            GraphLowering,
            example_inputs=inputs,
            shape_env=fakes.shape_env,
            is_backward=is_backward,
            is_inference=False,
        )
        graph = make(gm)
        if _lay_out_arguments(gm, graph):
            graph = make(gm, layout_opt=True)
        with (
            V.set_graph_handler(graph),
            V.set_extern_kernel_nodes([]),
            V.set_debug_handler(debug.DebugContext()),
            # The handler that is there was made when this thread first needed one, with the options of then.
            V.set_choices_handler(InductorChoices()),
        ):
            graph.run(*inputs)
            graph.init_wrapper_code()
            graph._update_scheduler()
            yield graph


IMAGES = 4
"""The dimensions of what Inductor may lay out with its channels last."""
LAY_OUT = torch.ops.prims.inductor_force_stride_order.default
"""Inductor's own operator: the value, in these strides."""


def _lay_out_arguments(gm: fx.GraphModule, graph: Any) -> bool:
    """Writes down which arguments Inductor copies, weights for example, to hand them to backward with their
    channels last: their copies are values. Returns whether there are any.
    """
    handed = [one for one in outputs_of(gm) if isinstance(one, fx.Node) and one.op == "placeholder"]
    places = {}
    for node in handed:
        value = node.meta["val"]
        if node not in graph.nodes_prefer_channels_last or node in graph.user_visible_output_strides:
            continue
        if value.dim() == IMAGES and torch.ops.aten.is_non_overlapping_and_dense(value):
            strides = torch.empty_like(value, memory_format=torch.channels_last).stride()
            if value.stride() != strides:
                places[node] = strides
    last = next((one for one in reversed(gm.graph.nodes) if one.op == "placeholder"), None)
    for node, strides in places.items():
        with gm.graph.inserting_after(last):
            last = copy = gm.graph.create_node(
                "call_function", LAY_OUT, (node, strides), name=f"{node.name}_laid_out"
            )
        copy.meta = {**node.meta, "val": laid_out(node.meta["val"], strides).clone()}
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
    return bool(places)


def leave_arguments(gm: fx.GraphModule) -> None:
    """Lets a graph hand on arguments as they are, and no copies in other strides."""
    meta = gm.graph.output_node().meta
    outputs = enumerate(outputs_of(gm))
    handed = [place for place, one in outputs if isinstance(one, fx.Node) and one.op == "placeholder"]
    meta["user_visible_output_idxs"] = sorted({*meta.get("user_visible_output_idxs", ()), *handed})


def fake_mode(gm: fx.GraphModule) -> Any:
    """The mode in which a graph was traced."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, torch._subclasses.FakeTensor):
                return one.fake_mode
    raise CompileError("the graph has no tensors")


HAS_NO_BYTES = (ir.NoneLayout, ir.MultiOutputLayout, ir.MutationLayoutSHOULDREMOVE, ir.NonOwningLayout)
"""Layouts of what is no allocation of its own: nothing, a tuple, what lies in another buffer."""


def bytes_of(buffer: Any) -> int:
    """The bytes that Inductor allocates for a buffer; 0 for what has none of its own."""
    if isinstance(buffer.get_output_spec(), HAS_NO_BYTES):
        return 0
    sizes = V.graph.sizevars
    # torch 2.11 calls it size_hint.
    hint = getattr(sizes, "size_hint", None) or sizes.optimization_hint
    elements = hint(V.graph.get_allocation_storage_size(buffer), fallback=0)
    return int(elements) * buffer.get_dtype().itemsize


def origin(node: Any) -> fx.Node | None:
    """The node of the graph that a buffer or an extern kernel is the value of."""
    found = node.get_origin_node()
    if found is not None and found.target is LAY_OUT and isinstance(node, ir.ExternKernel):
        # The kernel lays its result out so by itself.
        found = found.args[0]
    if found is not None:
        return found
    called = getattr(node, "fx_node", None)
    return _picked(called, node) if isinstance(node, ir.MultiOutput) else called


def _picked(call: fx.Node | None, part: Any) -> fx.Node | None:
    """The node that picks this buffer out of the results of a call; None if the graph has no such node."""
    places = [place for _, place in part.indices]
    for place in places:
        picks = [] if call is None else [one for one in call.users if joint.is_getitem(one)]
        call = next((one for one in picks if one.args[1] == place), None)
    return call


def strides_of(buffer: Any, value: torch.Tensor) -> tuple[int, ...] | None:
    """The strides that Inductor gives a buffer of a traced value; None where it has the value otherwise."""
    if buffer is None or isinstance(buffer.maybe_get_output_spec(), HAS_NO_BYTES):
        return None
    try:
        sizes, strides = buffer.get_size(), buffer.get_stride()
    except NotImplementedError:
        return None
    found = [number(one) for one in (*sizes, *strides)]
    if None in found or tuple(found[: len(sizes)]) != tuple(value.size()):
        return None
    return tuple(found[len(sizes) :])


def number(size: Any) -> int | None:
    """A size of Inductor's, if it is known."""
    return int(size) if getattr(size, "is_number", isinstance(size, int)) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Extern:
    """A kernel that is not Inductor's own."""

    node: fx.Node
    """The call, in the graph."""
    call: fx.Node
    """The same of operands in the strides that Inductor gives it, in a graph of its own."""


def extern(kernel: Any) -> Extern | None:
    """The call that an extern kernel is; None for what was no call in the graph."""
    source = origin(kernel)
    if source is None or source.op != "call_function":
        return None
    operands: list[fx.Node] = []
    fx.node.map_arg((source.args, source.kwargs), operands.append)
    tensors = [one for one in operands if joint.tensor_of(one) is not None]
    buffers = kernel.inputs if len(kernel.inputs) == len(tensors) else [None] * len(tensors)
    pairs = zip(tensors, buffers, strict=True)
    strides = {node: strides_of(one, joint.tensor_of(node)) for node, one in pairs}
    graph, inside = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in source.all_input_nodes:
        what = (node.op, node.target) if node.op == "get_attr" else ("placeholder", node.name)
        inside[node] = made = graph.create_node(*what, name=node.name)
        made.meta = dict(node.meta)
        if node in strides:
            made.meta["val"] = laid_out(node.meta["val"], strides[node])
    call = graph.node_copy(source, inside.__getitem__)
    return Extern(source, call)


def tuple_parts(kernel: Any, users: list[Any]) -> list[tuple[str, int]]:
    """The results of an extern kernel with several: for each, the name of the buffer that it is picked as, or
    one made up for what nobody picks, and its bytes. ``users`` are the scheduler nodes that read it.
    """
    picked = {}
    for user in users:
        for one in getattr(user, "get_outputs", list)():
            if isinstance(one.node, ir.MultiOutput):
                picked[tuple(index for _, index in one.node.indices)] = one.node
    source = origin(kernel)
    values = source.meta.get("val") if source is not None else None
    if not isinstance(values, (tuple, list)):
        return [(buffer.get_name(), bytes_of(buffer)) for buffer in picked.values()]
    parts = []
    for place, value in _flat(values):
        if place in picked:
            parts.append((picked[place].get_name(), bytes_of(picked[place])))
        elif isinstance(value, torch.Tensor):
            parts.append(
                (f"{kernel.get_name()}.{'.'.join(map(str, place))}", value.untyped_storage().nbytes())
            )
    return parts


def _flat(value: Any, place: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(value, (tuple, list)):
        for index, one in enumerate(value):
            yield from _flat(one, (*place, index))
    else:
        yield place, value
