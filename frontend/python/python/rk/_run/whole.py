"""Reads all bytes that are allocated on a device, for budgets of scope ``device``.

A GPU is the training's, and all that its allocator has handed out counts. The CPU's memory is everybody's,
and the allocator is not counted from the beginning. So what was there when a meter begins counts if it is
claimed, as an argument of a graph or as something of an optimizer's; all that is allocated afterwards counts.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterable

import torch

from rk._plan import device as devices
from rk._run import observe


@dataclasses.dataclass
class Found:
    """A storage that was there when a meter began."""

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
        if self.works and device.type == "cpu":
            self._look_around()

    def _look_around(self) -> None:
        gc.collect()
        uncounted = observe.uncounted()
        for one in devices.storages():
            name = one._cdata
            if name not in self._found:
                reference = uncounted.get(name)
                self._found[name] = Found(one.nbytes(), reference is None or reference() is not one)
                weakref.finalize(one, _gone, weakref.ref(self), name).atexit = False
        self._offset = -self._read()[0]

    def claim(self, tensors: Iterable[object]) -> None:
        """These are of the training, whenever they were made."""
        for one in tensors if self._found else ():
            found = self._found.get(one.untyped_storage()._cdata) if type(one) in devices.PLAIN else None
            if found is not None and not found.is_claimed:
                found.is_claimed = True
                self._offset += found.size

    def gone(self, name: int) -> None:
        """A storage that was there is there no more."""
        found = self._found.pop(name)
        if found.is_counted and not found.is_claimed:
            self._offset += found.size
        elif found.is_claimed and not found.is_counted:
            self._offset -= found.size

    def begin(self) -> None:
        """A step begins."""
        self.read()

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading."""
        level, peak = self._read()
        most, self._most = max(peak + self._offset, self._most), 0
        return level + self._offset, most

    def peek(self) -> int:
        """Bytes now; the next reading is as if nobody had looked."""
        level, self._most = self.read()
        return level


def _gone(meter: weakref.ref[WholeMeter], name: int) -> None:
    if (found := meter()) is not None:
        found.gone(name)
