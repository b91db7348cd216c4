"""How a call is spelled, so that the core recognises calls that recur.

Two calls have the same number exactly if they run the same operator with the same constants on operands of
the same shapes, strides, types and devices. Which operands those are is not part of it: the core knows where
they come from, and compares that itself.

Not here: what a segment is and what is done with it (``passes/dtr``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rk._online.replay import Replay, Slot

__all__ = ["Spellings"]

# More than this are begun anew; numbers are not given twice.
_SPELLINGS = 1 << 16


class Spellings:
    """Numbers of calls by how they are spelled."""

    def __init__(self) -> None:
        """None so far."""
        self._numbers: dict[Any, int] = {}
        self._next = 0

    def number(self, replay: Replay, operands: Sequence[Tensor]) -> int:
        """The number of a call that runs on these operands."""
        lies = tuple([(t.dtype, t.get_device(), t.shape, t.stride()) for t in operands])
        options = _frozen(list(replay.kwargs.items())) if replay.kwargs else None
        spelling = (replay.func, lies, _frozen(replay.args), options)
        try:
            found = self._numbers.get(spelling)
        except TypeError:
            # A constant that cannot be hashed.
            spelling = repr(spelling)
            found = self._numbers.get(spelling)
        if found is None:
            if len(self._numbers) > _SPELLINGS:
                self._numbers.clear()
            self._next += 1
            found = self._numbers[spelling] = self._next
        return found


def _frozen(items: Sequence[Any]) -> Any:
    """Arguments to compare: slots by their places, and numbers with their types, since 1 == 1.0 == True."""
    return tuple(
        [
            _frozen(item)
            if type(item) in (list, tuple)
            else (Slot, item.place)
            if type(item) is Slot
            else ("like", item.dtype, item.shape, item.stride())
            if isinstance(item, Tensor)
            else (type(item), item)
            for item in items
        ]
    )
