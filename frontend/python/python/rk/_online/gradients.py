"""Gradients that are added up: in one buffer, and part by part.

Autograd adds the gradients of all uses of a tensor, and where the uses were slices it adds as many tensors
of full size, each of them zero but for its slice. Here such a tensor is not made until somebody reads it, nor
is the sum of several; and what is added to a sum that nobody else can see is added in its memory
(``sums``).

The bits are those of adding in full: what lies outside of a slice gets a zero added as well, which makes a
negative zero positive.

Not here: all other operators (``dispatch``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Part", "Parts", "Seen", "same_layout", "seen", "shape_of"]

_aten = torch.ops.aten
Seen = tuple[int, int]


class Part:
    """The gradient of a slice: ``func(part, *args)``, where the part has ``size`` elements."""

    __slots__ = ("args", "func", "size")

    def __init__(self, func: Any, args: tuple[Any, ...], size: int) -> None:
        """``slice_backward`` or ``select_backward``."""
        self.func = func
        self.args = args
        self.size = size

    def add_to(self, total: Tensor, part: Tensor) -> None:
        """Adds it to a tensor, in place."""
        dim = self.args[1]
        size = total.shape[dim]
        if self.func is _aten.select_backward.default:
            start = self.args[2] % size
            end = start + 1
            part = part.unsqueeze(dim)
        else:
            start, end, _ = slice(self.args[2], self.args[3]).indices(size)
            end = max(start, end)
        total.narrow(dim, 0, start).add_(0)
        total.narrow(dim, start, end - start).add_(part)
        total.narrow(dim, end, size - end).add_(0)


class Parts:
    """A sum of such gradients, in order, as a call that reads the parts."""

    __slots__ = ("numel", "shape", "terms")

    def __init__(self, terms: list[Part], shape: Sequence[int]) -> None:
        """Of one shape in full."""
        self.terms = terms
        self.shape = shape
        self.numel = torch.Size(shape).numel()

    def __str__(self) -> str:
        """The first operator, for messages."""
        return str(self.terms[0].func)

    def plus(self, other: Parts) -> Parts | None:
        """This and one more gradient, as long as the parts take no more than the sum would."""
        if len(other.terms) > 1:
            return None
        both = Parts(self.terms + other.terms, self.shape)
        return both if sum(term.size for term in both.terms) <= self.numel else None

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The sum."""
        with torch._C._AutoDispatchBelowAutograd(), torch.no_grad():
            first = self.terms[0]
            total = first.func(values[0], *first.args)
            for term, value in zip(self.terms[1:], values[1:], strict=True):
                term.add_to(total, value)
        return [total]


def shape_of(func: Any, args: tuple[Any, ...]) -> Sequence[int] | None:
    """The shape of the gradient of a slice, if the slice is without gaps."""
    if func is _aten.slice_backward.default and args[5] != 1:
        return None
    return args[1]


def seen(args: tuple[Any, ...]) -> Seen:
    """How many hold the first argument of a call: in C++, and in Python."""
    return args[0]._use_count(), sys.getrefcount(args[0])


def same_layout(total: Tensor, other: Tensor) -> bool:
    """Whether adding a tensor to another in place makes what adding both makes."""
    return (
        total.dtype == other.dtype
        and total.shape == other.shape
        and total.is_contiguous()
        and other.is_contiguous()
        and total.device == other.device
    )
