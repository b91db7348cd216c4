"""A model and a sample whose tensors have sizes and no memory: what is asked of them costs none.

Parameters may be real, or on the device ``meta``, where a model of any size can be built:
``with torch.device("meta"): model = ...``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from rk.errors import CompileError


def twin_of(model: nn.Module, sample: Any, device: torch.device) -> tuple[FakeTensorMode, nn.Module, Any]:
    """The same model on the same sample, on ``device`` and without memory, and the mode to call it in.

    Raises CompileError for a model that ``copy.deepcopy`` refuses.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def without_memory(tensor: torch.Tensor) -> torch.Tensor:
        with mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        return fake.requires_grad_(tensor.requires_grad)

    twins: dict[int, Any] = {}
    for tensor in _tensors(model):
        fake = without_memory(tensor)
        if isinstance(tensor, nn.Parameter):
            fake = nn.Parameter(fake.detach(), requires_grad=tensor.requires_grad)
        twins[id(tensor)] = fake
    try:
        twin = copy.deepcopy(model, twins)
    except Exception as error:  # noqa: BLE001 - a model may hold anything
        raise CompileError(
            f"{type(model).__name__} cannot be copied, and is asked about in a copy: "
            f"{type(error).__name__}: {error}"
        ) from error
    return mode, twin, tree_map_only(torch.Tensor, without_memory, sample)


def _tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    """Parameters, buffers, and tensors that are ordinary attributes."""
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        yield from (one for one in vars(module).values() if isinstance(one, torch.Tensor))
