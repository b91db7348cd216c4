"""Pieces that call operators of :mod:`campaigns.pieces.operators`."""

from __future__ import annotations

import torch
from torch import nn

from campaigns.pieces import operators
from campaigns.pieces.registry import piece


@piece("custom operator", weight=2, needs=(operators,), factor=(1.0, 0.5))
def operator_plain(x, factor):
    return torch.ops.campaign.plain(x, factor)


@piece("custom operator", weight=2, needs=(operators,))
def operator_noisy(x):
    return torch.ops.campaign.noisy(torch.sin(x))[0] + x * 0.1


@piece("custom operator", needs=(operators,))
def operator_tagged(x):
    return torch.sin(torch.ops.campaign.tagged(x))


@piece("custom operator", weight=2, needs=(operators,))
class OperatorWriting(nn.Module):
    """An operator that adds up in a buffer."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        torch.ops.campaign.writing(x.detach(), self.total)
        return torch.tanh(x + self.total)


@piece("custom operator", weight=2, needs=(operators,))
def operator_writing_inside(x):
    total = torch.zeros(x.shape[1], dtype=x.dtype)
    torch.ops.campaign.writing(x.detach(), total)
    return torch.sin(x * total)


@piece("custom operator", weight=2, needs=(operators,))
def operator_telling(x):
    return torch.tanh(torch.ops.campaign.telling(x, "forward"))


@piece("custom operator", needs=(operators,))
def operator_stateful(x):
    return torch.tanh(torch.ops.campaign.stateful(x.sin()))
