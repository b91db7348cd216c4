"""A joint graph of AOTAutograd as rk reads it: what goes in and comes out, and what is called in which order.

Every call has a line, counted from 1, and a schedule is a list of lines. The forward pass ends at the line
of ``rk.tangents``, which hands the outputs to the caller and comes back with their gradients. Updates of
buffers, which AOTAutograd puts at the very end, stand before it, because they belong to the forward pass.

Reading is cheap, and so is :attr:`Step.fingerprint`, by which a plan is found on disk; the text of the step
(:mod:`rk._graph.graph_text`) is written only when a plan has to be made.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils.checkpoint import CheckpointPolicy

from rk._graph import joint, loans, spelling
from rk._graph.repetition import Manner, is_pure, is_unknown, manner_of


class Step:
    """A joint graph, read."""

    def __init__(
        self,
        gm: fx.GraphModule,
        num_fwd_outputs: int | None,
        static: Iterable[int],
        *,
        replays: bool = True,
    ) -> None:
        """``num_fwd_outputs`` is None for a graph without a backward pass; ``static`` are the indices of
        state; ``replays`` says whether a random operator can run again with the same random numbers.
        """
        self.gm, self.replays = gm, replays
        outputs = list(map_arg(next(iter(gm.graph.find_nodes(op="output"))).args[0], lambda n: n))
        cut = len(outputs) if num_fwd_outputs is None else num_fwd_outputs
        self.outputs, self.gradients = outputs[:cut], outputs[cut:]
        self.placeholders = list(gm.graph.find_nodes(op="placeholder"))
        self.places = {node: place for place, node in enumerate(self.placeholders)}
        self.tangents = [node for node in self.placeholders if joint.is_tangent(node)]
        self.static = {self.placeholders[index] for index in static}
        self.static -= {node for node in self.placeholders if joint.is_opaque(node)}
        self.nodes = self._in_order()
        """Calls, picked results and constants in their order; None where the tangents come in."""
        self.lines = [node for node in self.nodes if node is None or joint.is_call(node)]
        """The calls: the node of line ``n`` is ``lines[n - 1]``, None for the tangents."""
        self.boundary = self.lines.index(None) + 1 if self.tangents else None
        """The line of the tangents."""

    def _in_order(self) -> list[fx.Node | None]:
        nodes = [node for node in self.gm.graph.nodes if node.op in ("call_function", "get_attr")]
        if not self.tangents:
            return nodes
        # What AOTAutograd appends (updates of arguments) belongs to the forward pass.
        early: list[fx.Node | None] = []
        late = []
        for node in nodes:
            (late if joint.is_backward(node) else early).append(node)
        return [*early, None, *late]

    @functools.cached_property
    def named(self) -> dict[str, fx.Node]:
        """The nodes by their names."""
        return {node.name: node for node in self.gm.graph.nodes}

    @functools.cached_property
    def targets(self) -> list[Any]:
        """What is called, each once. Hashing an operator takes longer than all else that is done with it."""
        return list({id(node.target): node.target for node in self.lines if node is not None}.values())

    @functools.cached_property
    def random(self) -> list[tuple[int, fx.Node]]:
        """What draws random numbers, with its line."""
        pure = {id(one) for one in self.targets if isinstance(one, torch._ops.OpOverload) and is_pure(one)}
        calls = [(line, node) for line, node in enumerate(self.lines, 1) if node is not None]
        unsure = (one for one in calls if id(one[1].target) not in pure)
        return [(line, node) for line, node in unsure if manner_of(node) is Manner.RANDOM]

    @functools.cached_property
    def loans(self) -> loans.Loans:
        """What the caller may change between forward and backward; nothing, where there is no backward."""
        return loans.Loans(self.gm.graph, self.outputs, self.gradients)

    @property
    def objects(self) -> list[fx.Node]:
        """What forward is given, or makes, that is neither a tensor nor a number."""
        given = [node for node in self.placeholders if not joint.is_backward_only(node)]
        made = self.nodes[: self.nodes.index(None)] if self.tangents else self.nodes
        calls = [node for node in made if node is not None and node.op == "call_function"]
        return [node for node in (*given, *calls) if joint.is_opaque(node)]

    def is_lent(self, placeholder: fx.Node) -> bool:
        """Whether nothing may read the argument after the hand-over but what backward itself reads."""
        return self.boundary is not None and placeholder in self.loans.arguments

    def is_trained(self, placeholder: fx.Node) -> bool:
        """Whether the input is a tensor with a gradient; a ``DTensor``'s comes with its ``DeviceMesh``."""
        index = self.places[placeholder]
        has_gradient = index < len(self.gradients) and self.gradients[index] is not None
        return has_gradient and not joint.is_opaque(placeholder)

    def runs_once(self, call: fx.Node) -> bool:
        """Whether nothing may run the call again: it changes the world or may do so for all that is known,
        draws numbers that cannot be drawn again, or the user wants its result saved (a policy of selective
        checkpointing).
        """
        about = spelling.operator(call.target)
        must_save = call.meta.get("recompute") is CheckpointPolicy.MUST_SAVE
        manner = manner_of(call)
        return about.is_effect or must_save or manner > (Manner.RANDOM if self.replays else Manner.PURE)

    def unknown(self) -> list[str]:
        """The operators of which nothing is known, so that they must not run in a rehearsal either."""
        calls = (node for node in self.lines if node is not None and is_unknown(node))
        others = (node for node in calls if getattr(node.target, "namespace", "") not in spelling.COLLECTIVES)
        return list(dict.fromkeys(spelling.operator(node.target).name for node in others))

    def gradient_bytes(self) -> int:
        """The bytes of all gradients of parameters, which scope ``activations`` does not count."""
        return sum(tensor.nbytes for tensor in self._parameter_gradients())

    def gradient_places(self) -> list[int]:
        """Which results of the backward pass are gradients of parameters."""
        return [index for index, place in enumerate(self.placeholders) if place in self.static]

    def own_gradients(self) -> list[int]:
        """The same, without those that share memory with what comes in or leaves the step otherwise."""
        places = self.gradient_places()
        given = [one for place, one in enumerate(self.gradients) if place not in places]
        others = (one for one in (*self.placeholders, *self.outputs, *given) if isinstance(one, fx.Node))
        shared = set[int]().union(*map(joint.storages_of, others))
        made = [(place, self.gradients[place]) for place in places if place < len(self.gradients)]
        nodes = [(place, one) for place, one in made if isinstance(one, fx.Node)]
        return [place for place, one in nodes if shared.isdisjoint(joint.storages_of(one))]

    def handed_out_bytes(self, alignment: int) -> int:
        """The bytes of what leaves the step or comes from the caller and is no gradient of a parameter:
        outputs, their gradients, gradients of inputs; each storage once, rounded up.
        """
        parameters = self.gradient_storages()
        others = (one for place, one in enumerate(self.gradients) if not self._is_static(place))
        sizes = {}
        for node in (*self.outputs, *self.tangents, *others):
            for tensor in joint.results_of(node) if isinstance(node, fx.Node) else ():
                if tensor is not None and joint.storage_of(tensor) not in parameters:
                    sizes[joint.storage_of(tensor)] = tensor.untyped_storage().nbytes()
        return sum(-(-size // alignment) * alignment for size in sizes.values())

    def _is_static(self, place: int) -> bool:
        return place < len(self.placeholders) and self.placeholders[place] in self.static

    def result_storages(self) -> set[int]:
        """The storages of all that the step returns."""
        nodes = (node for node in (*self.outputs, *self.gradients) if isinstance(node, fx.Node))
        tensors = (tensor for node in nodes for tensor in joint.results_of(node))
        return {joint.storage_of(tensor) for tensor in tensors if tensor is not None}

    def gradient_storages(self) -> set[int]:
        """The storages of all gradients of parameters."""
        return {joint.storage_of(tensor) for tensor in self._parameter_gradients()}

    def _parameter_gradients(self) -> list[torch.Tensor]:
        pairs = zip(self.placeholders, self.gradients, strict=False)
        tensors = [joint.tensor_of(gradient) for place, gradient in pairs if place in self.static]
        return [tensor for tensor in tensors if tensor is not None]

    def updated(self) -> set[int]:
        """The indices of the inputs that forward overwrites."""
        found = set()
        for node in self.lines[: self.boundary]:
            if node is not None and (written := spelling.written(node)):
                named = dict(spelling.in_schema_order(spelling.operator(node.target), node))
                found.update(self.places[named[name]] for name in written if named[name] in self.places)
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all that the plan depends on: operators and their arguments, sizes, strides and shared
        storages of what comes in, passes, which inputs are state, what the user wants saved. Sizes of results
        follow from these, but for operators that are not PyTorch's own.
        """
        return hashlib.sha256("".join(self._told).encode()).hexdigest()

    @functools.cached_property
    def kind(self) -> str:
        """The same on all devices of a kind: the fingerprint without their numbers."""
        told = re.sub(r"(type='\w+'), index=\d+", r"\1", "".join(self._told))
        return hashlib.sha256(told.encode()).hexdigest()

    @functools.cached_property
    def _told(self) -> list[str]:
        names: dict[int, tuple[str, bool]] = {}
        storages: dict[int, int] = {}
        told = [f"{len(self.outputs)} {self.replays}"]
        for node in self.gm.graph.nodes:
            op, target, meta = node.op, node.target, node.meta
            unchecked = meta.get(loans.UNCHECKED, False)
            if op == "call_function":
                name, is_known = names.get(id(target)) or names.setdefault(id(target), _named(target))
                marks = meta.get("partitioner_tag"), meta.get("recompute")
                # Printing a dictionary that is empty takes as long as all else of a line.
                told.append(f"\n{node.name} {node.args!r} {unchecked} {name} {node.kwargs or ''} {marks}")
                if not is_known:
                    told.append(f" {_sizes(meta.get('val'))} {manner_of(node)}")
                continue
            told.append(f"\n{node.name} {node.args!r} {unchecked}")
            if op == "placeholder":
                told.append(repr([target, node in self.static, *_shared(joint.tensor_of(node), storages)]))
            elif op == "get_attr":
                value = getattr(self.gm, target, None)
                is_code = isinstance(value, fx.GraphModule)
                told.append(repr(value.code if is_code else _shared(value, storages)))
        return told


def _named(target: Any) -> tuple[str, bool]:
    """What an operator is told by, and whether it is PyTorch's own: the schema of another one may change."""
    known = target is operator.getitem or getattr(target, "namespace", None) in ("aten", "prims")
    return str(target if known else getattr(target, "_schema", target)), known


def _sizes(value: Any) -> Any:
    """Tensors by their sizes; anything else, such as a number that was computed, by its kind."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride()
    return [_sizes(one) for one in value] if isinstance(value, (tuple, list)) else type(value).__name__


def _shared(value: Any, storages: dict[int, int]) -> list[Any]:
    """What comes from outside: also where it is, and with which other input it shares its storage."""
    if not isinstance(value, torch.Tensor):
        return [_sizes(value)]
    storage = value.untyped_storage()
    place = storages.setdefault(storage._cdata, len(storages))
    return [_sizes(value), value.device, value.storage_offset(), place, storage.nbytes()]
