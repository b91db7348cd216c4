"""Executes a sequence of operations on a chain of modules, as one function of autograd.

Up to the loss in its forward, the rest in its backward. What is held is exactly what the sequence says; every
second run of a stage finds generators, autocast and buffers as the first one did
(:mod:`rk._chain.stage_state`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from rk._chain.chain import Operation
from rk._chain.stage_state import StageState, detached, storages_of


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
    ) -> None:
        """``needs`` says whether the sample wants a gradient, ``random`` whether generators count,
        ``checked`` what each stage's backward reads.
        """
        self.checked, self.theirs = checked, storages_of(sample)
        self.modules = modules
        self.random = random
        runs = Counter(one.index for one in sequence if one.kind in ("Fn", "CF", "Fe"))
        self.again = {index for index, times in runs.items() if times > 1}
        """The stages that run more than once."""
        self.values: dict[int, Any] = {0: sample}
        """The input of stage ``i`` without history."""
        self.graphs: dict[int, tuple[Any, Any]] = {}
        """Of stage ``i``, run with a graph: the leaf that went in, and what came out."""
        self.states: dict[int, StageState] = {}
        self.needs = [needs]
        """Whether the input of stage ``i`` has a gradient."""
        for module in modules:
            self.needs.append(self.needs[-1] or any(one.requires_grad for one in module.parameters()))

    def forward(self, operation: Operation) -> None:
        """Runs one stage."""
        index, module = operation.index, self.modules[operation.index]
        graph = operation.kind == "Fe"
        known = self.states.get(index)
        value = self.values[index]
        if known is None:
            given = detached(value, self.needs[index] and graph)
            state = self._state(index, value) if index in self.again else None
            with torch.set_grad_enabled(graph):
                result = module(given)
            if state is not None:
                state.first_run_done()
                self.states[index] = state
        else:
            with known.again(), torch.set_grad_enabled(graph):
                # An input of the caller's is what it was, for as long as this lasts.
                given = detached(value, self.needs[index] and graph)
                result = module(given)
        if graph:
            self.graphs[index] = (given, result)
        if operation.kind == "Fn":
            del self.values[index]
        self.values[index + 1] = detached(result, False)

    def _state(self, index: int, value: Any) -> StageState:
        module = self.modules[index]
        # All but the sample, and what a stage gives back of it, is nobody else's.
        theirs = None if self.theirs.isdisjoint(storages_of(value)) else value
        return StageState(module, _device(value, module), self.random, self.checked[index], theirs)

    def backward(self, index: int, gradients: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """From the gradients of a stage's results to those of its inputs; parameters get theirs, too."""
        given, result = self.graphs.pop(index)
        self.values.pop(index + 1, None)
        pairs = [
            (one, gradient)
            for one, gradient in zip(_tensors(result), gradients, strict=True)
            if one.requires_grad and gradient is not None
        ]
        del result, gradients
        if pairs:
            torch.autograd.backward([one for one, _ in pairs], [gradient for _, gradient in pairs])
        return [one.grad for one in _tensors(given)]


class ChainFunction(torch.autograd.Function):
    """The chain as one operator."""

    @staticmethod
    def forward(ctx: Any, _anchor: Any, held: Held, sequence: Sequence[Operation], *inputs: Any) -> Any:
        """Runs the sequence up to the loss. ``_anchor`` wants a gradient, so that backward is called even
        when only parameters do.
        """
        loss = next(at for at, operation in enumerate(sequence) if operation.kind == "L")
        for operation in sequence[:loss]:
            held.forward(operation)
        ctx.held, ctx.rest = held, sequence[loss + 1 :]
        result = held.values[len(held.modules)]
        held.structure = pytree.tree_structure(result)
        # New handles of the same storages: autograd makes them the outputs of this operator.
        outputs = tuple(one.detach() if _is_tensor(one) else one for one in pytree.tree_leaves(result))
        ctx.mark_non_differentiable(*(one for one in outputs if _is_tensor(one) and not _continuous(one)))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Runs the rest of the sequence."""
        if ctx.held is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time: a Checkpointable frees what it holds in "
                "its first backward pass, and retain_graph=True does not change that"
            )
        held, ctx.held = ctx.held, None
        leaves = pytree.tree_leaves(held.values[len(held.modules)])
        flow = [one for leaf, one in zip(leaves, gradients, strict=True) if _is_tensor(leaf)]
        del leaves, gradients
        for operation in ctx.rest:
            if operation.kind == "B":
                flow = held.backward(operation.index, flow)
            else:
                held.forward(operation)
        inputs = iter(flow)
        sample = pytree.tree_leaves(held.values[0])
        back = [next(inputs) if _is_tensor(one) else None for one in sample]
        return (None, None, None, *back)


@torch.compiler.disable
def run(
    modules: Sequence[nn.Module],
    sequence: Sequence[Operation],
    sample: Any,
    random: bool,
    checked: Sequence[frozenset[str]] | None = None,
) -> Any:
    """The result of a chain, whose backward follows the sequence."""
    leaves = pytree.tree_leaves(sample)
    needs = any(_is_tensor(one) and one.requires_grad for one in leaves)
    held = Held(
        modules, sequence, detached(sample, False), needs, random, checked or [frozenset()] * len(modules)
    )
    anchor = torch.empty(0, requires_grad=held.needs[-1])
    outputs = ChainFunction.apply(anchor, held, sequence, *leaves)
    return pytree.tree_unflatten(list(outputs), held.structure)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _tensors(value: Any) -> list[torch.Tensor]:
    return list(filter(_is_tensor, pytree.tree_leaves(value)))


def _continuous(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _device(value: Any, module: nn.Module) -> torch.device:
    tensors = (*_tensors(value), *module.parameters())
    return next((one.device for one in tensors if one.device.type != "cpu"), torch.device("cpu"))
