"""The state of optimizers, some of which take their steps within a backward pass, from hooks on parameters.

What it is allocated in stays from then on, like the parameters, and is no activation.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

import torch
from torch.optim.optimizer import Optimizer

from rk._plan import optimizers
from rk._plan.device import local

Storages = Iterable[torch.UntypedStorage]


class OptimizerStates:
    """The state of all optimizers, on one device."""

    def __init__(self, device: torch.device) -> None:
        """None has been found yet."""
        self._device = device
        self._optimizers: list[weakref.ref[Optimizer]] = []
        self._many: list[int] = []
        """Of how many parameters each had state when somebody last looked."""
        self._nbytes = 0

    def find(self, found: Iterable[Optimizer]) -> None:
        """These are all that there are."""
        self._optimizers, self._many = [weakref.ref(one) for one in found], []

    def nbytes(self, counted: Callable[[Storages], int]) -> int:
        """The bytes of their state now, of which ``counted`` says how many the allocator's count has. An
        optimizer that has the state of as many parameters as before is taken to have the same.
        """
        alive = (reference() for reference in self._optimizers)
        # A wrapper may have no state before it is used, or that of what it wraps.
        states = [getattr(one, "state", {}) for one in alive if one is not None]
        many = [len(one) for one in states]
        if many != self._many:
            parts = (local(one) for state in states for one in optimizers.tensors(state.values()))
            here = (one for one in parts if one.device.type == self._device.type)
            found = [one.untyped_storage() for one in here if torch._C._has_storage(one)]
            self._nbytes = counted({one._cdata: one for one in found}.values())
            self._many = many
        return self._nbytes
