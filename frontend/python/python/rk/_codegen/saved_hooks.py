"""Hooks on the tensors that autograd saves, as they are while a forward pass runs."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

_CHECKPOINT = "torch.utils.checkpoint"
_top = torch._C._autograd._top_saved_tensors_default_hooks


Installed = tuple[bool, bool]
"""Whether there are hooks, and whether they are those of ``torch.utils.checkpoint``."""


def installed() -> Installed:
    """Whether hooks get what is saved now, and whether they are those of ``torch.utils.checkpoint``."""
    hooks = _top(False)
    if hooks is None:
        return False, False
    return True, getattr(hooks[0], "__module__", None) == _CHECKPOINT


def let_switch(hooks: Installed) -> bool:
    """Whether other tensors may be saved now than those that hooks have been told of: there are no hooks, or
    a checkpoint will run the forward pass again, and nobody looks at its operators to keep some of them.
    """
    hooked, recomputed = hooks
    return not hooked or (recomputed and not _get_current_dispatch_mode_stack())


def runs_again() -> bool:
    """Whether a checkpoint runs its part of the forward pass again now."""
    return installed()[1] and torch._C._current_graph_task_id() != -1


def awaited() -> weakref.ref[Any] | None:
    """Lives until the checkpoint around what runs now has run it again, and its backward pass is over; None
    if there is no checkpoint.
    """
    if not installed()[1] or runs_again():
        return None
    pack = _top(False)[0]
    names = getattr(getattr(pack, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, pack.__closure__ or (), strict=True)) if names else {}
    if "frame" in cells:
        return weakref.ref(cells["frame"].cell_contents)
    if "target_frame_ref" not in cells:
        # Who reads a saved tensor by hand has a checkpoint run again outside of a backward pass.
        _tell_unknown()
    return None


@functools.cache
def _tell_unknown() -> None:
    """Says, once, that this torch keeps what a checkpoint will run again where rk does not look."""
    warnings.warn(
        f"rk: torch.utils.checkpoint of torch {torch.__version__} is not made as rk knows it, so the inputs "
        "that checkpoints around compiled calls hold until they run again are not counted in the budget",
        stacklevel=2,
    )


def autograd_is_compiled() -> bool:
    """Whether the backward pass will be compiled, which sees saved tensors only."""
    from torch._dynamo import compiled_autograd, config

    return config.compiled_autograd or compiled_autograd.depth > 0
