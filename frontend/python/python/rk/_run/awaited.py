"""Checkpoints of the user's around calls (``torch.utils.checkpoint``, of the kind that is not reentrant).

A call inside of one holds nothing when its forward half is over, and is made once more in the backward
pass. So a step may be under way while nothing is open. The inputs of its checkpoints lie beside the calls.
"""

from __future__ import annotations

import weakref
from typing import Any

from rk._codegen import saved_hooks


class Awaited:
    """The checkpoints of a step that have not made their calls once more."""

    def __init__(self) -> None:
        """There is none."""
        self._frames: dict[int, weakref.ref[Any]] = {}

    def __len__(self) -> int:
        """How many there are."""
        self._frames = {key: one for key, one in self._frames.items() if one() is not None}
        return len(self._frames)

    def meet(self) -> bool:
        """Notes the checkpoint around the call that begins now; whether there is one."""
        found = saved_hooks.awaited()
        if found is not None:
            self._frames[id(found())] = found
        return found is not None

    def is_one_again(self) -> bool:
        """Whether it is the only one that makes its calls once more now."""
        return saved_hooks.runs_again() and len(self) == 1

    def forget(self) -> None:
        """None is of a step from here on."""
        self._frames.clear()
