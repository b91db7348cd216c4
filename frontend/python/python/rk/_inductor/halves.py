"""PyTorch's own partition of a joint graph as units, and what becomes of the arguments that are lent.

Arguments that are lent (:mod:`rk._graph.loans`) and small beside what is made of them are copied: a unit of
its own, which is written only if the copy is read after the hand-over.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.utils.checkpoint import CheckpointPolicy

from rk._graph import joint, loans, repetition, spelling
from rk._graph.copies import copied
from rk._graph.repetition import Manner
from rk._inductor import lowering
from rk._inductor.reading import lowered
from rk._inductor.units import Unit
from rk.errors import CompileError


class Halves:
    """PyTorch's own partition of a joint graph, as units."""

    def __init__(
        self, gm: fx.GraphModule, num_fwd_outputs: int, static: Sequence[int], *, obeys: bool = False
    ) -> None:
        """``static`` are the indices of state among the arguments, and of its gradients among the results of
        backward; ``obeys`` says that what the model's own checkpoints drop is dropped. Otherwise they are
        permission, and the plan decides.
        """
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        _refuse(gm.graph)
        own = copied(gm)
        if not obeys:
            _untag(own.graph, own.graph.output_node().args[0][:num_fwd_outputs])
        forward, backward = min_cut_rematerialization_partition(
            own,
            None,
            compiler="inductor",
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_indices=list(static),
        )
        self.original = forward, backward
        self.outputs = num_fwd_outputs
        """How many results forward has for its caller."""
        self.forward = lowered(forward, num_fwd_outputs, is_backward=False)
        # Backward finds what was saved as Inductor's forward leaves it.
        found = backward.graph.find_nodes(op="placeholder")
        names = [node.name for node in found if not joint.is_backward_only(node)]
        left = dict(zip(names, self.forward.strides[num_fwd_outputs:], strict=False))
        backward = lowering.in_strides(backward, left)
        placeholders = gm.graph.find_nodes(op="placeholder")
        parameters = {place: joint.tensor_of(placeholders[place]) for place in static}
        backward = lowering.as_autograd_keeps(backward, parameters)
        self.backward = lowered(backward, len(lowering.outputs_of(backward)), is_backward=True)
        self.arguments = list(self.forward.gm.graph.find_nodes(op="placeholder"))
        late = list(self.backward.gm.graph.find_nodes(op="placeholder"))
        self.late = [node for node in late if joint.is_backward_only(node)]
        """The arguments of backward that come from its caller."""
        self.tangents = [node for node in self.late if joint.is_tangent(node)]
        saved = [node for node in late if not joint.is_backward_only(node)]
        shown = self.forward.outputs[num_fwd_outputs:]
        if len(saved) != len(shown) or not all(isinstance(node, fx.Node) for node in shown):
            raise CompileError("the two halves of PyTorch's partition do not fit together")
        self.shown: dict[fx.Node, fx.Node] = dict(zip(saved, shown, strict=True))
        """Per argument of backward that was saved, the node of forward that it is."""
        self.bases: dict[fx.Node, fx.Node] = {
            node: base
            for node, base in zip(saved, self.forward.bases[num_fwd_outputs:], strict=True)
            if base is not None
        }
        """Per argument of backward that was saved, the value or argument of forward whose memory it is."""
        checked = {
            base for node, base in self.bases.items() if not self.shown[node].meta.get(loans.UNCHECKED)
        }
        checked |= {base.args[0] for base in checked if base.target is lowering.LAY_OUT}
        self.checked = checked
        """What autograd finds changed, if the caller changes it before backward."""
        self.unchecked = set(self.bases.values()) - checked
        """What backward reads all the same."""
        self.lent = {node for node in self.arguments if node not in checked}
        """Arguments that the caller may change as soon as forward has returned."""
        self.changed = _updated(self.forward.units)
        """Arguments that forward may overwrite."""
        self._repeating: dict[Unit, bool] = {}
        self.copies: dict[fx.Node, Unit] = {}
        """Per lent argument that is small, what copies it."""
        for unit in self.forward.units:
            for argument in unit.operands:
                if argument in self.lent and self._is_small(argument, unit) and argument not in self.copies:
                    self.copies[argument] = _copy(argument)
        self.lines: list[Unit | None] = [
            *self.copies.values(),
            *self.forward.units,
            None,
            *self.backward.units,
        ]
        self.late_units = set(self.backward.units)

    def _is_small(self, argument: fx.Node, unit: Unit) -> bool:
        tensor = joint.tensor_of(argument)
        if tensor is None or argument in self.changed or not tensor.is_contiguous():
            return False
        return self._repeats(unit) and sum(unit.bytes.values()) >= loans.SMALL * tensor.nbytes

    def operands(self, unit: Unit) -> list[fx.Node]:
        """What a unit reads: values, arguments, and copies of arguments where they are read instead."""
        found = {}
        for node in self._needed(unit):
            base = self.bases.get(node, node)
            copy = self.copies.get(base)
            if copy is not None and copy is not unit and unit in self._forward and self._is_small(base, unit):
                base = copy.results[0]
            found[base] = None
        return list(found)

    @functools.cached_property
    def _forward(self) -> set[Unit]:
        return set(self.forward.units)

    def _needed(self, unit: Unit) -> list[fx.Node]:
        """The operands, without arguments that are read for the sake of their update only."""
        if not self._repeats(unit):
            return unit.operands
        return [node for node in unit.operands if node not in self.changed]

    def _repeats(self, unit: Unit) -> bool:
        """Whether a unit gives the same results when it runs again, without its effects."""
        if unit not in self._repeating:
            self._repeating[unit] = self._is_pure(unit)
        return self._repeating[unit]

    def _is_pure(self, unit: Unit) -> bool:
        body, operands = unit.part(unit.results)
        if not unit.results or not self.changed.isdisjoint(operands):
            return False
        written = (node for effect in unit.effects for node in _written(effect))
        if any(node.op != "placeholder" for node in written):
            # Its results are what an operator writes into memory of its own.
            return False
        for node in body:
            must_save = node.meta.get("recompute") is CheckpointPolicy.MUST_SAVE
            if joint.is_call(node) and (must_save or repetition.manner_of(node) is not Manner.PURE):
                return False
        return True

    def runs_once(self, unit: Unit) -> bool:
        """Whether nothing may run the unit again."""
        return unit not in self.copies.values() and not self._repeats(unit)


def _updated(units: Iterable[Unit]) -> set[fx.Node]:
    """The arguments that units overwrite. Units that read one run once, and so in the order of Inductor's."""
    return {
        node
        for unit in units
        for effect in unit.effects
        for node in _written(effect)
        if node.op == "placeholder"
    }


def _written(effect: fx.Node) -> list[fx.Node]:
    """What a call overwrites."""
    named = dict(spelling.in_schema_order(spelling.operator(effect.target), effect))
    found: list[fx.Node] = []
    fx.node.map_arg([named[name] for name in spelling.written(effect)], found.append)
    return found


WRITES_OUT = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)
"""Operators that write into arguments: Inductor calls them on copies, or on the arguments themselves."""


def _refuse(graph: fx.Graph) -> None:
    """Raises CompileError for what has kernels that no unit shows."""
    for node in graph.nodes:
        path = joint.module_path(node)
        named = f"{node.target}{f' in {path}' if path else ''}"
        if isinstance(node.target, HigherOrderOperator) and node.target not in WRITES_OUT:
            raise CompileError(f"{named} brings graphs or kernels of its own")
        if joint.is_call(node) and spelling.operator(node.target).is_effect:
            raise CompileError(f"{named} is called for an effect")


def _untag(graph: fx.Graph, outputs: Iterable[Any]) -> None:
    """Takes away what ``torch.utils.checkpoint`` has marked to run again, but for what is handed out: the
    caller may change it (law S9).
    """
    handed_out = set().union(*(joint.storages_of(one) for one in outputs if isinstance(one, fx.Node)))
    dropped = [node for node in graph.nodes if loans.is_dropped(node)]
    stay = {node for node in dropped if not handed_out.isdisjoint(joint.storages_of(node))}
    for node in graph.nodes:
        if node not in stay and node.meta.get("recompute") not in (None, CheckpointPolicy.MUST_SAVE):
            del node.meta["recompute"]


def _copy(argument: fx.Node) -> Unit:
    graph = argument.graph
    with graph.inserting_after(argument):
        node = graph.call_function(torch.ops.aten.clone.default, (argument,))
    node.meta = {"val": joint.tensor_of(argument), "partitioner_tag": "is_forward", loans.COPY: True}
    size = joint.tensor_of(argument).nbytes
    return Unit([node], [argument], [node], bytes={node: size}, moved=2 * size, kernels=1)
