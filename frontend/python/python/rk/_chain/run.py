"""Executes a sequence of operations on a chain of modules, each stage as one operator of autograd.

The forward pass of a stage runs the sequence up to the stage's own first run, its backward pass what of the
rest leads to the stage's own backward. What is held is exactly what the sequence says; every second run of a
stage finds generators, autocast, attributes and buffers as the first one did
(:mod:`rk._chain.stage_state`). Parameters are inputs of the operator (:mod:`rk._chain.stand_ins`).
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from rk._chain import stand_ins
from rk._chain.chain import Operation
from rk._chain.stage_state import StageState, detached, storages_of

SECOND = (
    "Trying to backward through the graph a second time: a Checkpointable frees what it holds in "
    "its first backward pass, and retain_graph=True does not change that"
)
DERIVATIVES = (
    "a Checkpointable has no second derivatives (create_graph=True): what its backward pass computes has no "
    "graph. Call its .model in the steps that need them"
)
TRANSFORMS = (
    "a Checkpointable under a transform of torch.func (grad, vmap, jvp): its stages run again in backward, "
    "when the transform is over. Call its .model there"
)


class Held:
    """What is in memory: inputs of stages, results with their graphs, and states of first runs."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        sequence: Sequence[Operation],
        sample: Any,
        needs: bool,
        random: bool,
        checked: Sequence[frozenset[str]],
        graded: Sequence[bool],
    ) -> None:
        """``needs`` says whether the sample wants a gradient, ``random`` whether generators count,
        ``checked`` what each stage's backward reads, ``graded`` whether all of its runs record a gradient.
        """
        self.checked, self.graded, self.theirs = checked, graded, storages_of(sample)
        self.modules = modules
        self.random = random
        self.ahead = deque(sequence)
        """The operations that have not run."""
        runs = Counter(one.index for one in sequence if one.kind in ("Fn", "CF", "Fe"))
        self.again = {index for index, times in runs.items() if times > 1}
        """The stages that run more than once."""
        self.values: dict[int, Any] = {0: sample}
        """The input of stage ``i`` without history."""
        self.graphs: dict[int, tuple[Any, Any, list[torch.Tensor]]] = {}
        """Of stage ``i``, run with a graph: the leaf that went in, what came out, and what stood in for the
        parameters.
        """
        self.states: dict[int, StageState] = {}
        self.parameters = [stand_ins.trained(module) for module in modules]
        self.needs = [needs]
        """Whether the input of stage ``i`` has a gradient."""
        for own in self.parameters:
            self.needs.append(self.needs[-1] or bool(own))
        self.lowest = next((at for at, one in enumerate(self.needs[1:]) if one), 0)
        """The first stage that has a backward pass."""
        self.due = set(range(self.lowest, len(modules)))
        """The stages whose backward pass has not run."""

    def run_forward(self, index: int) -> Any:
        """Runs what comes up to the first run of a stage, and gives the result of that."""
        self.forward(self.ahead.popleft())
        is_last = index + 1 == len(self.modules)
        return self.values.pop(index + 1) if is_last else self.values[index + 1]

    def run_backward(self, index: int, gradients: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Runs what leads to the backward pass of a stage, and that; gives the gradients of its inputs and of
        its parameters.
        """
        if index not in self.due:
            raise RuntimeError(SECOND)
        self.due.discard(index)
        while (operation := self.ahead.popleft()) != Operation("B", index):
            if operation.kind not in ("B", "L"):
                self.forward(operation)
        found = self.backward(index, gradients)
        if index == self.lowest:
            self.ahead.clear()
            self.values, self.graphs, self.states = {}, {}, {}
        return found

    def forward(self, operation: Operation) -> None:
        """Runs one stage."""
        index, module = operation.index, self.modules[operation.index]
        graph = operation.kind == "Fe"
        known = self.states.get(index)
        value = self.values[index]
        state = self._state(index, value) if known is None and index in self.again else None
        with known.again() if known is not None else contextlib.nullcontext():
            # In a second run, an input of the caller's is what it was for as long as this lasts.
            given = detached(value, self.needs[index] and (graph or self.graded[index]))
            if graph or self.graded[index]:
                with torch.enable_grad(), stand_ins.in_place_of(module, self.parameters[index]) as leaves:
                    result = module(given)
                if graph:
                    self.graphs[index] = (given, result, leaves)
            else:
                with torch.no_grad():
                    result = module(given)
        if state is not None:
            state.first_run_done()
            self.states[index] = state
        if operation.kind == "Fn":
            del self.values[index]
        self.values[index + 1] = detached(result, False)

    def _state(self, index: int, value: Any) -> StageState:
        module = self.modules[index]
        # All but the sample, and what a stage gives back of it, is nobody else's.
        theirs = None if self.theirs.isdisjoint(storages_of(value)) else value
        return StageState(module, _device(value, module), self.random, self.checked[index], theirs)

    def backward(self, index: int, gradients: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """From the gradients of a stage's results to those of its inputs, and of its parameters."""
        given, result, leaves = self.graphs.pop(index)
        self.values.pop(index + 1, None)
        pairs = [
            (one, gradient)
            for one, gradient in zip(pytree.tree_leaves(result), gradients, strict=True)
            if _is_tensor(one) and one.requires_grad and gradient is not None
        ]
        del result, gradients
        if pairs:
            torch.autograd.backward([one for one, _ in pairs], [gradient for _, gradient in pairs])
        inputs = [one.grad if _is_tensor(one) else None for one in pytree.tree_leaves(given)]
        return [*inputs, *(one.grad for one in leaves)]


class StageFunction(torch.autograd.Function):
    """A stage of a chain as one operator."""

    @staticmethod
    def forward(ctx: Any, held: Held, index: int, *_inputs: Any) -> Any:
        """Runs the sequence up to the stage. ``_inputs`` are those of the stage and its parameters: what
        autograd makes edges of.
        """
        ctx.held, ctx.index = held, index
        ctx.set_materialize_grads(False)
        result = held.run_forward(index)
        held.structure = pytree.tree_structure(result)
        # New handles of the same storages: autograd makes them the outputs of this operator.
        outputs = tuple(one.detach() if _is_tensor(one) else one for one in pytree.tree_leaves(result))
        ctx.mark_non_differentiable(*(one for one in outputs if _is_tensor(one) and not _continuous(one)))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Runs the sequence up to the backward pass of the stage."""
        if torch.is_grad_enabled():
            raise RuntimeError(DERIVATIVES)
        return (None, None, *ctx.held.run_backward(ctx.index, list(gradients)))


@torch.compiler.disable
def run(
    modules: Sequence[nn.Module],
    sequence: Sequence[Operation],
    sample: Any,
    random: bool,
    checked: Sequence[frozenset[str]] | None = None,
    graded: Sequence[bool] | None = None,
) -> Any:
    """The result of a chain, whose backward follows the sequence."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise NotImplementedError(TRANSFORMS)
    leaves = pytree.tree_leaves(sample)
    needs = any(_is_tensor(one) and one.requires_grad for one in leaves)
    checked, graded = checked or [frozenset()] * len(modules), graded or [False] * len(modules)
    held = Held(modules, sequence, detached(sample, False), needs, random, checked, graded)
    for index, parameters in enumerate(held.parameters):
        leaves = StageFunction.apply(held, index, *leaves, *parameters)
    return pytree.tree_unflatten(list(leaves), held.structure)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _tensors(value: Any) -> list[torch.Tensor]:
    return list(filter(_is_tensor, pytree.tree_leaves(value)))


def _continuous(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _device(value: Any, module: nn.Module) -> torch.device:
    tensors = (*_tensors(value), *module.parameters())
    return next((one.device for one in tensors if one.device.type != "cpu"), torch.device("cpu"))
