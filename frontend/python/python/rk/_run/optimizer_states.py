"""The state of optimizers, some of which take their steps within a backward pass, from hooks on parameters.

What it is allocated in stays from then on, like the parameters, and is no activation.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from rk._plan import device as devices
from rk._plan import optimizers

Sizes = dict[int, int]
"""Bytes of storages by their addresses."""


class OptimizerStates:
    """The state of all optimizers, on one device."""

    def __init__(self, device: torch.device) -> None:
        """None has been found yet."""
        self._device = device
        self.find(())

    def find(self, found: Iterable[Optimizer]) -> None:
        """These are all that there are."""
        self._seen: list[tuple[weakref.ref[Optimizer], int, Sizes]] = [
            (weakref.ref(one), 0, {}) for one in found
        ]
        """With of how many parameters there was state when somebody last looked, and its storages."""
        self._holders: collections.Counter[int] = collections.Counter()
        """By storage, how many optimizers have it: a wrapper has the state of what it wraps."""
        self._nbytes = 0

    def nbytes(self, counted: Callable[[torch.UntypedStorage], bool]) -> int:
        """The bytes of their state now, as far as the allocator's count has them, which ``counted`` tells. An
        optimizer that has the state of as many parameters as before is taken to have the same.
        """
        for place, (reference, many, sizes) in enumerate(self._seen):
            optimizer = reference()
            state = {} if optimizer is None else _state(optimizer)
            if len(state) != many:
                here = map(devices.local, optimizers.tensors(state.values()))
                new = {one._cdata: one.nbytes() for one in self._storages(here) if counted(one)}
                self._exchange(sizes, new)
                self._seen[place] = reference, len(state), new
        return self._nbytes

    def _storages(self, tensors: Iterable[torch.Tensor]) -> Iterable[torch.UntypedStorage]:
        """What the tensors of this device are in, as far as rk knows the way they keep it."""
        plain = (one for one in tensors if type(one) in devices.PLAIN and torch._C._has_storage(one))
        return (one.untyped_storage() for one in plain if one.device.type == self._device.type)

    def _exchange(self, old: Sizes, new: Sizes) -> None:
        for key, size in old.items():
            self._holders[key] -= 1
            self._nbytes -= 0 if self._holders[key] else size
        for key, size in new.items():
            self._nbytes += 0 if self._holders[key] else size
            self._holders[key] += 1


def _state(optimizer: Optimizer) -> Mapping[Any, Any]:
    """That of an optimizer; none of one that has not been set up, or keeps it in a way of its own."""
    try:
        state = optimizer.state
    except Exception:  # noqa: BLE001 - a property of somebody else's
        return {}
    return state if isinstance(state, Mapping) else {}
