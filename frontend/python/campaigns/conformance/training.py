"""Three training steps of a module, and every number that came out of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

Compile = Callable[[Any], Any]
"""Makes the compiled one of a module or function."""

STEPS = 3


def normal(*shape: int, **about: Any) -> Tensor:
    """Numbers that are the same in every process."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), **about)


def blocks(width: int = 64) -> nn.Sequential:
    """Two blocks with something to recompute in them."""
    layers = ((nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(2))
    return nn.Sequential(*(layer for block in layers for layer in block))


def mean_square(output: Any) -> Tensor:
    """A loss of all tensors in an output."""
    found = [one for one in _pytree.tree_leaves(output) if isinstance(one, Tensor)]
    squares = [(one.abs() if one.is_complex() else one.float()).square().mean() for one in found]
    return torch.stack(squares).sum()


def trained(
    compile: Compile,
    model: nn.Module,
    *inputs: Any,
    loss: Callable[[Any], Tensor] = mean_square,
    around: Callable[[], Any] = contextlib.nullcontext,
    backward: Callable[[], Any] = contextlib.nullcontext,
) -> list[Tensor]:
    """Losses, gradients and parameters of three steps; ``around`` is entered for the forward pass."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    step = compile(model)
    seen: list[Tensor] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with around():
            result = loss(step(*inputs))
        with backward():
            result.backward()
        seen += [result, *(one.grad for one in parameters)]
        seen = [one.detach().clone() for one in seen]
        optimizer.step()
    return [*seen, *state(model)]


def state(model: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers as they are now."""
    for one in (*model.parameters(), *model.buffers()):
        yield one.detach().clone()


def plain(tensor: Tensor) -> Tensor:
    """A tensor whose bytes can be compared."""
    if tensor.is_nested:
        tensor = tensor.values()
    if tensor.is_sparse:
        tensor = tensor.coalesce().to_dense()
    return tensor
