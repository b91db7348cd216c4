"""What a stage of a chain depends on besides its input, so that a second run repeats the first.

Generators, the mode of autocast, and the buffers that a run updates: a second run finds all of them as the
first one did, and leaves them as it found them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


def detached(value: Any, requires_grad: bool) -> Any:
    """The same tensors without history; those that can have a gradient ask for one, if wanted."""

    def cut(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        leaf = one.detach()
        can = leaf.dtype.is_floating_point or leaf.dtype.is_complex
        return leaf.requires_grad_() if requires_grad and can else leaf

    return pytree.tree_map(cut, value)


class StageState:
    """The surroundings of a first run, kept for the next ones."""

    def __init__(self, module: nn.Module, device: torch.device, random: bool) -> None:
        """Notes what is there now; ``random`` says whether generators count."""
        self._device = device
        self._generators = _generators(device) if random else None
        self._buffers = [(one, one.detach().clone()) for one in module.buffers()]
        kinds = {"cpu", device.type}
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds
        ]
        self._cache = torch.is_autocast_cache_enabled()

    def first_run_done(self) -> None:
        """Forgets the buffers that the first run left alone."""
        self._buffers = [(one, old) for one, old in self._buffers if not torch.equal(one, old)]

    @property
    def bytes(self) -> int:
        """What is kept."""
        kept = [old for _, old in self._buffers] + (self._generators or [])
        return sum(one.nbytes for one in kept)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Everything as before the first run, while this lasts."""
        buffers = [one for one, _ in self._buffers]
        now = [one.detach().clone() for one in buffers]
        generators = _generators(self._device) if self._generators is not None else None
        with contextlib.ExitStack() as stack, torch.no_grad():
            for kind, enabled, dtype in self._autocast:
                context = torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cache)
                stack.enter_context(context)
            _put(buffers, [old for _, old in self._buffers])
            if self._generators is not None:
                _set_generators(self._device, self._generators)
            try:
                yield
            finally:
                _put(buffers, now)
                if generators is not None:
                    _set_generators(self._device, generators)


@contextlib.contextmanager
def kept_still(modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Buffers, gradients and generators are afterwards what they were before."""
    buffers = [one for module in modules for one in module.buffers()]
    parameters = [one for module in modules for one in module.parameters()]
    values, gradients = [one.detach().clone() for one in buffers], [one.grad for one in parameters]
    generators = _generators(device)
    for one in parameters:
        one.grad = torch.zeros_like(one) if one.requires_grad else None
    try:
        yield
    finally:
        with torch.no_grad():
            _put(buffers, values)
        for one, gradient in zip(parameters, gradients, strict=True):
            one.grad = gradient
        _set_generators(device, generators)


def _put(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    for buffer, value in zip(into, values, strict=True):
        # Through .data: a graph that saved the buffer shall not take this for a change.
        buffer.data.copy_(value)


def _generators(device: torch.device) -> list[torch.Tensor]:
    states = [torch.random.get_rng_state()]
    return (
        states if device.type == "cpu" else [*states, torch.get_device_module(device).get_rng_state(device)]
    )


def _set_generators(device: torch.device, states: Sequence[torch.Tensor]) -> None:
    torch.random.set_rng_state(states[0])
    for state in states[1:]:
        torch.get_device_module(device).set_rng_state(state, device)
