"""Reads all bytes that are allocated on a device, for budgets of scope ``device``.

A GPU is the training's, and all that its allocator has handed out counts. The CPU's memory is everybody's,
and the allocator is not counted from the beginning. So what was there when a meter begins counts if it is
claimed, as an argument of a graph or as something of an optimizer's; all that is allocated afterwards counts.
The buckets of DDP are no tensors of Python's; those that a DDP has begun with are of the training.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from rk._plan import device as devices
from rk._run import observe
from rk._run.parameters import ddps, gathered, in_buckets


@dataclasses.dataclass
class Found:
    """A storage that was there when a meter began, or the first buckets of a DDP."""

    size: int
    is_counted: bool
    """Whether the allocator's count has it."""
    is_claimed: bool = False


class WholeMeter(observe.Meter):
    """Reads what is allocated on a device, with gradients and all that stands there."""

    def __init__(self, device: torch.device) -> None:
        """Counting begins now."""
        super().__init__(device)
        self._most = 0
        """The most that a glance has seen, for the next reading."""
        self._offset = 0
        """What is to be added to the allocator's count."""
        self._found: dict[int, Found] = {}
        """By address; those that are still there."""
        self._first_buckets: list[weakref.ref[Any]] = []
        """The DDPs that were there and have not made their buckets again yet."""
        if self.works and device.type == "cpu":
            self._look_around()

    def _look_around(self) -> None:
        gc.collect()
        for one in devices.storages():
            if one._cdata not in self._found:
                self._finds(one._cdata, one, one.nbytes())
        self._offset = -self._read(0)[0]
        self.claim(gathered())
        for one in ddps():
            # Where gradients are views, they are found by these.
            views = one.gradient_as_bucket_view
            kept = [other for other in in_buckets(one) if other.grad is None or not views]
            size = sum(other.nbytes for other in kept)
            self._finds(id(one), one, size).is_claimed = True
            self._offset += size
            if not one._has_rebuilt_buckets:
                self._first_buckets.append(weakref.ref(one))

    def _finds(self, name: int, one: Any, size: int) -> Found:
        """Notes what was there."""
        reference = observe.uncounted().get(name)
        found = self._found[name] = Found(size, reference is None or reference() is not one)
        weakref.finalize(one, _gone, weakref.ref(self), name).atexit = False
        return found

    def _look_at_buckets(self) -> None:
        """Those that DDP has made again are gone, and the new ones are counted."""
        alive = [one for reference in self._first_buckets if (one := reference()) is not None]
        for one in alive:
            if one._has_rebuilt_buckets:
                self.gone(id(one))
        self._first_buckets = [weakref.ref(one) for one in alive if not one._has_rebuilt_buckets]

    def claim(self, tensors: Iterable[object]) -> None:
        """These are of the training, whenever they were made."""
        for one in tensors if self._found else ():
            found = self._found.get(one.untyped_storage()._cdata) if type(one) in devices.PLAIN else None
            if found is not None and not found.is_claimed:
                found.is_claimed = True
                self._offset += found.size

    def gone(self, name: int) -> None:
        """What was there is there no more."""
        found = self._found.pop(name, None)
        if found is None:
            return
        if found.is_counted and not found.is_claimed:
            self._offset += found.size
        elif found.is_claimed and not found.is_counted:
            self._offset -= found.size

    def begin(self) -> None:
        """A step begins."""
        self.read()

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading."""
        level, peak = self._read(0)
        if self._first_buckets:
            self._look_at_buckets()
        most, self._most = max(peak + self._offset, self._most), 0
        self.raw, self.surely = level + self._offset, most
        return self.raw, most

    def glance(self) -> int:
        """Bytes now; the next reading is as if nobody had looked."""
        return self.peek()

    def peek(self) -> int:
        """Bytes now; the next reading is as if nobody had looked."""
        level, self._most = self.read()
        return level


def _gone(meter: weakref.ref[WholeMeter], name: int) -> None:
    if (found := meter()) is not None:
        found.gone(name)
