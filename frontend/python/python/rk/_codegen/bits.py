"""When two tensors are the same to the last bit, which is what law S8 promises."""

from __future__ import annotations

import hashlib

import torch


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether shape, dtype and every bit are the same; so NaN equals itself, and 0.0 is not -0.0."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(_bytes(left), _bytes(right))


def digest(tensor: torch.Tensor) -> bytes:
    """The same for tensors of the same bits, whatever their shapes."""
    return hashlib.blake2b(_bytes(tensor).cpu().numpy().tobytes(), digest_size=16).digest()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    # A copy: what has at most one element counts as contiguous with any stride, but views as bytes do not.
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8)
