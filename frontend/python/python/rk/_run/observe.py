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
from collections.abc import Callable, Iterable
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
        self.most_gradients = 0
        """The most of them at any reading since somebody has set this."""
        self.raw = 0
        """All bytes but the state of optimizers at the last reading."""
        self.most = 0
        """The most bytes, with gradients, between the last glance and what was read before."""
        self.surely = 0
        """What the last reading says of the most at least: some of it may have become gradients."""
        self._there: dict[int, int] = {}
        """By storage, the bytes of ``gradients``."""
        self._known = NOTHING
        """The most since the last reading, as far as gradients have gone since."""
        self._known_surely = NOTHING
        """The same at least."""
        self._watched: dict[int, weakref.ref[Any]] = {}
        """By storage, the gradients of which it is noticed that they go."""
        self._coming: dict[int, int] = {}
        """By storage, the bytes of gradients that a backward half has made in this step, until a parameter
        has them or they are gone.
        """
        self._before_coming = 0
        """Bytes of the gradients that there were before these."""
        self._since = NOTHING
        """The most bytes that were read after the half."""
        self.states = 0
        """Bytes of the state of optimizers at the last reading, which is no part of what is read."""
        self._states_before = 0
        """The same when the step began."""

    @property
    def works(self) -> bool:
        """Whether anything can be read: on the CPU it takes a torch whose allocators rk has met."""
        return self._read is not None

    def begin(self) -> None:
        """A step begins: its parameters are those that are there now."""
        self.parameters.find()
        self._coming, self.most_gradients = {}, 0
        self._look_at_gradients()
        self._states_before = self._look_at_states()
        self._known = self._known_surely = NOTHING
        if self.works:
            self._read(0)

    @property
    def made_states(self) -> bool:
        """Whether optimizers have made state since the step began."""
        return self.states > self._states_before

    def _gradients(self) -> dict[int, torch.UntypedStorage]:
        """Those that the allocator's count has."""
        found = self.parameters.gradient_storages()
        left_out = uncounted() if self.works and self._device.type == "cpu" else {}
        before = {key: left_out[key]() for key in found.keys() & left_out.keys()}
        return {key: storage for key, storage in found.items() if before.get(key) is not storage}

    def _is_counted(self, storage: torch.UntypedStorage) -> bool:
        """Whether the allocator's count has it."""
        left_out = uncounted() if self.works and self._device.type == "cpu" else {}
        before = left_out.get(storage._cdata)
        return before is None or before() is not storage

    def _look_at_gradients(self) -> None:
        found = {key: storage.nbytes() for key, storage in self._gradients().items()}
        # What goes meanwhile takes itself out.
        for key in found:
            self._coming.pop(key, None)
        self._there = {**found, **self._coming.copy()}
        self.gradients = sum(self._there.values())
        self.most_gradients = max(self.most_gradients, self.gradients)

    def _look_at_states(self) -> int:
        self.states = self.parameters.states.nbytes(self._is_counted)
        return self.states

    def watch_gradients(self, goes: Callable[[int, int], None]) -> None:
        """``goes`` gets the storage and the bytes of each gradient that is there now, right before its memory
        is given back.
        """
        for key, storage in self._gradients().items():
            self._watch(key, storage, goes)

    def gradients_come(
        self, made: Iterable[torch.Tensor], goes: Callable[[int, int], None]
    ) -> frozenset[int]:
        """A backward half has made these, which autograd is about to give to parameters that have no
        gradients: they count as gradients until :meth:`gradients_have_come`. ``goes`` is as for
        :meth:`watch_gradients`. Returns their storages.
        """
        self._before_coming, self._since = self.gradients, NOTHING
        whole = [one for one in made if one.untyped_storage().nbytes() <= one.nbytes]
        for one in whole:
            storage = one.untyped_storage()
            self._coming[storage._cdata] = storage.nbytes()
            self._watch(storage._cdata, storage, goes)
        return frozenset(one.untyped_storage()._cdata for one in whole)

    def gradients_have_come(self, are_others: bool) -> None:
        """Autograd has given parameters all that it will give them before the next half. What none of them
        has waits to be added to something else, or is kept by a hook; ``are_others``: some have got something
        else. Then what was made is no gradient, nor was it since :meth:`gradients_come`.
        """
        waiting = self._coming.keys() - self._gradients().keys()
        self._coming.clear()
        if not (waiting or are_others):
            return
        _, peak = self._read(0)
        peak, states = max(peak, self._since), self.states
        self._look_at_gradients()
        self._look_at_states()
        least, most = sorted((self._before_coming, self.gradients))
        self._known = max(self._known, peak - least - states)
        self._known_surely = max(self._known_surely, peak - most - max(states, self.states))

    def _watch(self, key: int, storage: torch.UntypedStorage, goes: Callable[[int, int], None]) -> None:
        def gone(key: int, size: int, _: Any) -> None:
            self._watched.pop(key, None)
            self._coming.pop(key, None)
            goes(key, size)

        if key not in self._watched:
            self._watched[key] = weakref.ref(storage, functools.partial(gone, key, storage.nbytes()))

    def gradient_goes(self, key: int, size: int) -> None:
        """A gradient is about to be given back: the most so far has had it, and what comes has not.

        No parameter is asked for its gradient here: one of them still points to a tensor that is being
        destroyed. So what replaces a gradient counts as the caller's until the next reading.
        """
        _, peak = self._read(size)
        self._since = max(self._since, peak)
        before = self.states
        states = max(before, self._look_at_states())
        self._known = max(self._known, peak - self.gradients - before)
        self._known_surely = max(self._known_surely, peak - self.gradients - states)
        self.gradients -= self._there.pop(key, 0)

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading; what has become a gradient by now, or the state of
        an optimizer, is in neither, but the most may have what became one since.
        """
        level, peak = self._read(0)
        self._since = max(self._since, peak)
        before, states = self.gradients, self.states
        self._look_at_gradients()
        self._look_at_states()
        self.raw = level - self.states
        known, surely = self._known, self._known_surely
        self._known = self._known_surely = NOTHING
        self.surely = max(peak - max(before, self.gradients) - max(states, self.states), surely)
        level = self.raw - self.gradients
        return level, max(peak - before - states, level, known)

    def glance(self) -> int:
        """Bytes now, with gradients; it costs less than a reading, and forgets the most so far."""
        level, most = self._read(0)
        states = self._look_at_states()
        self.most = most - states
        return level - states


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
