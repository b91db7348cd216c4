"""Which of Inductor's buffers is which value of the graph, and in whose memory a buffer lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor import ir
from torch._inductor.scheduler import BaseSchedulerNode

from rk._graph import joint
from rk._inductor import lowering
from rk.errors import CompileError


class Buffers:
    """The buffers of a scheduled graph."""

    def __init__(self, gm: fx.GraphModule, graph: Any, kernels: Sequence[BaseSchedulerNode]) -> None:
        """``graph`` is Inductor's lowering of ``gm``, with its ``kernels``."""
        self.gm, self.graph, self.kernels = gm, graph, kernels
        self.places = {node: place for place, node in enumerate(gm.graph.nodes)}
        self.arguments = {node.name: node for node in gm.graph.find_nodes(op="placeholder")}
        self.views = self._views()
        """Per buffer that lies in the memory of another one, that one."""
        self.value_of = self._named_buffers()
        """Per buffer that is a value of the graph, the node that it is the value of."""
        self._name_returned()

    def memory(self, name: str) -> str:
        """The buffer or argument in whose memory a buffer lies."""
        name = self.graph.scheduler.mutation_real_name.get(name, name)
        return self.views.get(name, name)

    def value(self, name: str) -> fx.Node | None:
        """The value or argument that a buffer is, or lies in."""
        name = self.memory(name)
        return self.value_of.get(name) or self.arguments.get(name)

    def _views(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for kernel in self.kernels:
            for buffer in kernel.get_outputs():
                if isinstance(buffer.node.get_output_spec(), ir.NonOwningLayout):
                    # A part of a concatenation is made where it lies, and is no view of what is there.
                    continue
                of = list(dict.fromkeys(found.get(name, name) for name in buffer.get_aliases()))
                if len(of) > 1:
                    raise CompileError(f"{buffer.get_name()} lies in {' and '.join(of)} at once")
                found.update((buffer.get_name(), name) for name in of)
        return found

    def _named_buffers(self) -> dict[str, fx.Node]:
        last: dict[fx.Node, str] = {}
        made = [one for kernel in self.kernels for one in kernel.get_outputs()]
        made = [buffer for buffer in made if buffer.get_name() not in self.views]
        for buffer in made:
            node = buffer.node.get_origin_node()
            if self._is_all_of(buffer.node, node):
                last[node] = buffer.get_name()
        for buffer in made:
            has_bytes = not isinstance(buffer.node.get_output_spec(), lowering.HAS_NO_BYTES)
            if has_bytes and buffer.node.get_origin_node() is None:
                for node in self._candidates(buffer.node):
                    if node not in last and self._is_all_of(buffer.node, node):
                        last[node] = buffer.get_name()
                        break
        return {name: node for node, name in last.items()}

    def _name_returned(self) -> None:
        """Buffers of a call with several results (``var_mean``) may be said to be of the call alone. Which
        result one is follows from the place at which it is returned.
        """
        made = {buffer.get_name(): buffer.node for kernel in self.kernels for buffer in kernel.get_outputs()}
        values = map(joint.tensor_of, lowering.outputs_of(self.gm))
        for output, value in zip(self.graph.graph_outputs, values, strict=True):
            name = _name_of(output)
            if name not in made or value is None or self.value(name) is not None:
                continue
            node = next((one for one in self.places if _shares(joint.tensor_of(one), value)), None)
            if node not in self.value_of.values() and self._is_all_of(made[name], node):
                self.value_of[name] = node

    def _candidates(self, buffer: Any) -> list[fx.Node]:
        """What a buffer may be that Inductor says no node of: the result of the call for which it was made,
        as a concatenation is; or an operand, which the call asks for in memory and in strides of its choice.
        """
        known = (one for one in buffer.get_origins() if one in self.places)
        origins = sorted(known, key=self.places.__getitem__)
        called = origins[-1:]
        operands = [one for one in origins[:-1] for call in called if one in call.all_input_nodes]
        return [*called, *reversed(operands)]

    def _is_all_of(self, buffer: Any, node: fx.Node | None) -> bool:
        value = joint.tensor_of(node)
        if value is None or node not in self.places or node.op != "call_function":
            return False
        if isinstance(buffer.get_output_spec(), lowering.HAS_NO_BYTES):
            return False
        return value.dtype == buffer.get_dtype() and value.numel() == _numel(buffer)

    def base(self, output: Any) -> fx.Node | None:
        """The value or argument that a result of the graph lies in; None for constants."""
        name = _name_of(output)
        found = None if name is None else self.value(name)
        if name is not None and found is None:
            raise CompileError(f"Inductor returns {name}, which is no value of the graph")
        return found


def _numel(buffer: Any) -> int:
    elements = 1
    for size in buffer.get_size():
        elements *= int(size)
    return elements


def _shares(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    return one is not None and joint.storage_of(one) == joint.storage_of(other)


def _name_of(output: Any) -> str | None:
    """The name of what a graph of Inductor's returns; None of a number or of nothing."""
    is_buffer = isinstance(output, ir.IRNode) and hasattr(output, "get_name")
    constant = isinstance(output, (ir.NoneAsConstantBuffer, ir.ShapeAsConstantBuffer))
    return output.get_name() if is_buffer and not constant else None
