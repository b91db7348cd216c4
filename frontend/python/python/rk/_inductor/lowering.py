"""A graph as Inductor lowers and schedules it, with no code made of it.

What is called here is private to PyTorch, and so is most of what :mod:`.reading` reads of the result. The
steps are those of ``torch._inductor.compile_fx`` between the partition and the making of code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch._inductor import ir
from torch._inductor.virtualized import V

from rk.errors import CompileError

LAYOUT = {"layout_optimization": False}
"""Convolutions read and write the strides that PyTorch's tracing says, as all other values do: a value that
is in channels-last memory for one reader and not for another would be copied where no plan knows of it.
"""


def outputs_of(gm: fx.GraphModule) -> list[Any]:
    """What a graph returns, by place."""
    return list(gm.graph.output_node().args[0])


@contextlib.contextmanager
def scheduled(gm: fx.GraphModule, visible: int, *, is_backward: bool) -> Iterator[Any]:
    """Inductor's ``GraphLowering`` of the graph, fused and ordered. The first ``visible`` outputs keep their
    strides. ``gm`` goes through Inductor's passes: its nodes are those that the kernels are made of.
    """
    from torch._inductor import compile_fx, debug
    from torch._inductor.choices import InductorChoices
    from torch._inductor.graph import GraphLowering

    inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    fakes = _fake_mode(gm)
    gm.graph.output_node().meta["user_visible_output_idxs"] = [
        place for place, one in enumerate(outputs_of(gm)[:visible]) if isinstance(one, fx.Node)
    ]
    patch = torch._inductor.config.patch(_post_fusion_custom_pass=None, **LAYOUT)
    with patch, torch.no_grad(), V.set_fake_mode(fakes):
        compile_fx.view_to_reshape(gm)
        compile_fx.fake_tensor_prop(gm, inputs)
        compile_fx._recursive_record_original_output_strides(gm)
        compile_fx._recursive_post_grad_passes(gm, is_inference=False)
        graph = GraphLowering(
            gm,
            example_inputs=inputs,
            shape_env=fakes.shape_env,
            is_backward=is_backward,
            is_inference=False,
        )
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


def _fake_mode(gm: fx.GraphModule) -> Any:
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
    return found if found is not None else getattr(node, "fx_node", None)


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
