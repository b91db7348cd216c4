"""What lives on a device at the events of a step: read from the allocator, not guessed.

On the CPU rk's own counter stands in front of PyTorch's allocator from the moment that two graphs are
known to share a budget (:func:`counter`); on a GPU the caching allocator counts anyway.
Gradients of parameters are not activations, whoever makes them: they are found as the ``.grad`` of the
parameters of this process (:mod:`rk._run.parameters`).
"""

from __future__ import annotations

import functools
import importlib
import warnings
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from rk import _torch
from rk._plan import device as devices
from rk._run.parameters import Parameters, ddps

NOTHING = -(1 << 62)
"""Bytes where nothing has been read yet."""


class Meter:
    """Reads the bytes that are allocated on a device, without the gradients of parameters."""

    def __init__(self, device: torch.device) -> None:
        """Counting begins now."""
        self._device = device
        self._read = count() if device.type == "cpu" else _accelerator(device)
        self.parameters = Parameters(device)
        self.gradients = 0
        """Their bytes at the last reading."""
        self.raw = 0
        """All bytes at the last reading."""
        self.most = 0
        """The most bytes, with gradients, between the last glance and what was read before."""
        self.surely = 0
        """What the last reading says of the most at least: some of it may have become gradients."""
        self._there: dict[int, int] = {}
        """By storage, the bytes of ``gradients``."""
        self._known = NOTHING
        """The most since the last reading, as far as gradients have gone since."""
        self._watched: dict[int, weakref.ref[Any]] = {}
        """By storage, the gradients of which it is noticed that they go."""

    @property
    def works(self) -> bool:
        """Whether anything can be read: on the CPU it takes a torch whose allocators rk has met."""
        return self._read is not None

    def begin(self) -> None:
        """A step begins: its parameters are those that are there now."""
        self.parameters.find()
        self._look_at_gradients()
        self._known = NOTHING
        if self.works:
            self._read(0)

    def _gradients(self) -> dict[int, torch.UntypedStorage]:
        """Those that the allocator's count has."""
        found = self.parameters.gradient_storages()
        left_out = uncounted() if self.works and self._device.type == "cpu" else {}
        before = {key: left_out[key]() for key in found.keys() & left_out.keys()}
        return {key: storage for key, storage in found.items() if before.get(key) is not storage}

    def _look_at_gradients(self) -> None:
        self._there = {key: storage.nbytes() for key, storage in self._gradients().items()}
        self.gradients = sum(self._there.values())

    def watch_gradients(self, goes: Callable[[int, int], None]) -> None:
        """``goes`` gets the storage and the bytes of each gradient that is there now, right before its memory
        is given back.
        """

        def gone(key: int, size: int, _: Any) -> None:
            self._watched.pop(key, None)
            goes(key, size)

        for key, storage in self._gradients().items():
            if key not in self._watched:
                called = functools.partial(gone, key, storage.nbytes())
                self._watched[key] = weakref.ref(storage, called)

    def gradient_goes(self, key: int, size: int) -> None:
        """A gradient is about to be given back: the most so far has had it, and what comes has not.

        No parameter is asked for its gradient here: one of them still points to a tensor that is being
        destroyed. So what replaces a gradient counts as the caller's until the next reading.
        """
        _, peak = self._read(size)
        self._known = max(self._known, peak - self.gradients)
        self.gradients -= self._there.pop(key, 0)

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading; what has become a gradient by now is in neither,
        but the most may have what became one since.
        """
        level, peak = self._read(0)
        self.raw = level
        before = self.gradients
        self._look_at_gradients()
        known, self._known = self._known, NOTHING
        self.surely = max(peak - max(before, self.gradients), known)
        return level - self.gradients, max(peak - before, level - self.gradients, known)

    def glance(self) -> int:
        """Bytes now, with gradients; it costs less than a reading, and forgets the most so far."""
        level, self.most = self._read(0)
        return level


def counter() -> ModuleType | None:
    """What counts on the CPU.

    The runtime of lowered steps counts where it is linked to this torch, because it knows what a step's arena
    serves. With another torch, the counter does that is made of c10's allocators alone. A torch that is newer
    than all that were seen may have laid them out otherwise, so nothing counts there.
    """
    names = ["rk._rk_runtime"] if _torch.refuse_runtime() is None else []
    for name in names if _torch.is_unseen() else [*names, "rk._rk_memory"]:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            _tell_missing(name, str(error))
    return None


@functools.cache
def _tell_missing(name: str, error: str) -> None:
    """Says, once, that a part of the package cannot be loaded, though it was built for this torch."""
    follows = {
        "rk._rk_runtime": "codegen='rk' cannot run, and what is allocated on the CPU is counted without it",
        "rk._rk_memory": "what is allocated on the CPU between calls that share a budget is not counted",
    }
    warnings.warn(
        f"rk: {name} is a part of rk for torch {torch.__version__} and cannot be loaded ({error}), so "
        f"{follows[name]}. Installing rk again brings it back",
        stacklevel=2,
    )


def count() -> Callable[[int], tuple[int, int]] | None:
    """Counts on the CPU from here on: what was handed out before is not missed when it comes back."""
    counts = counter()
    if counts is None:
        return None
    uncounted()
    read: Callable[[int], tuple[int, int]] = counts.memory
    return read


@functools.cache
def tell_uncounted(budget: str, device: torch.device) -> None:
    """Says, once of a budget, that nothing can be read where several calls share it."""
    warnings.warn(
        f"rk: several calls share the budget of {budget}, and with torch {torch.__version__} rk cannot count "
        f"what is allocated on the {device.type} between them: the budget holds for what the calls make and "
        f"hold, and what other code makes comes on top. It counts that with torch {_torch.SEEN[0]} to "
        f"{_torch.SEEN[-1]}, and on a GPU with any torch",
        stacklevel=2,
    )


@functools.cache
def uncounted() -> dict[int, weakref.ref[Any]]:
    """Begins to count on the CPU; by address, the storages that were there before and are not counted, and
    the DDPs whose first buckets were.
    """
    counts = counter()
    assert counts is not None, "what is not counted is asked for only where something counts"
    before = counts.memory()
    probe = torch.empty(1, device="cpu")
    by_others = counts.memory() != before
    del probe
    counts.count_memory()
    # Somebody who has begun to count before is taken to have counted all.
    if by_others:
        return {}
    there = {one._cdata: weakref.ref(one) for one in devices.storages()}
    return there | {id(one): weakref.ref(one) for one in ddps()}


def _accelerator(device: torch.device) -> Callable[[int], tuple[int, int]]:
    module = torch.get_device_module(device)
    highest = 0

    def read(_: int) -> tuple[int, int]:
        # The statistics are the user's, and are not reset: a peak is seen when it is a new one.
        nonlocal highest
        level, most = module.memory_allocated(device), module.max_memory_allocated(device)
        peak = most if most > highest else level
        highest = most
        return level, peak

    return read
