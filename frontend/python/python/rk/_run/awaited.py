"""Checkpoints of the user's around calls (``torch.utils.checkpoint``).

A call inside of one holds nothing when its forward half is over, and is made once more in the backward
pass. So a step may be under way while nothing is open. The inputs of its checkpoints lie beside the calls.

Inside of a reentrant checkpoint the first call is made without gradients, so that no step sees it. The user
is told of what is not counted then.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch

from rk._codegen import saved_hooks


class Awaited:
    """The checkpoints of a step that have not made their calls once more."""

    def __init__(self) -> None:
        """There is none."""
        self._frames: dict[int, weakref.ref[Any]] = {}
        self._inside = -1
        """The backward pass inside of which the last step began; -1 if it began outside."""

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

    def begin(self, owner: Any) -> None:
        """A step begins with a call of this class. Several that begin inside of one backward pass are those
        of reentrant checkpoints.
        """
        before, self._inside = self._inside, torch._C._current_graph_task_id()
        if self._inside != -1 and self._inside == before and not saved_hooks.installed()[1]:
            warnings.warn(
                f"rk: calls of {owner.name} run forward inside of a backward pass, as those of a reentrant "
                "torch.utils.checkpoint do, and each is a step by itself: what the other checkpoints hold "
                f"meanwhile comes on top of the budget of {owner.group.asked}. With use_reentrant=False it "
                "is counted",
                stacklevel=2,
            )
