"""Hooks on the tensors that autograd saves, as they are while a forward pass runs."""

from __future__ import annotations

import torch


def installed() -> tuple[bool, bool]:
    """Whether hooks get what is saved now, and whether they are those of ``torch.utils.checkpoint``."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    if hooks is None:
        return False, False
    return True, getattr(hooks[0], "__module__", None) == "torch.utils.checkpoint"


def autograd_is_compiled() -> bool:
    """Whether the backward pass will be compiled, which sees saved tensors only."""
    from torch._dynamo import compiled_autograd, config

    return config.compiled_autograd or compiled_autograd.depth > 0
