"""What the schema of an operator says about it, read once per operator.

Which arguments it writes, which outputs are views of which arguments, what a second run does.
Not here: how a call runs (``dispatch``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rk._graph.repetition import KNOWN, UNORDERED, Manner, manner

__all__ = ["Operator", "operator"]

# Batch norms write their running statistics in training and do not say so in their schemas: the places of
# those.
_SILENT_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
# Results that composite operators read and write on the host, past all dispatch: the batch sizes and lengths
# of packed sequences.
_READ_ON_THE_HOST = {"aten::_pack_padded_sequence": (1,)}
# Gradients of slices: zero but for a part, which is the first argument.
_PARTS = ("aten::slice_backward", "aten::select_backward")
# They read how their first argument lies, and nothing of what is in it.
_SHAPED = {
    f"aten::{name}"
    for name in (
        *("empty_like", "zeros_like", "ones_like", "full_like"),
        *("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"),
    )
}
# Operators whose gradients autograd computes by another formula where a subclass or a mode looks on, which
# gives other last bits, or zeros of another sign.
_OTHER_GRADIENT = {
    *("aten::prod", "aten::prod.dim_int", "aten::cumprod", "aten::masked_fill.Tensor"),
    *("aten::max", "aten::min", "aten::median", "aten::nanmedian"),
}
# The place of their flag for training, without which they write nothing.
_TRAINING = 5


@dataclass(slots=True)
class Operator:
    """One overload of one operator."""

    func: Any
    """The overload itself."""
    key: int
    """A number of its own, for the core's tables."""
    written: tuple[int | str, ...]
    """Places or names of the arguments that it writes."""
    silent: bool
    """Whether it writes those in training only."""
    fresh: bool
    """Whether it returns one tensor, and that has a storage of its own."""
    manner: Manner | None
    """What a second run does; None if that depends on the device or on what the user allows."""
    is_known: bool
    """Whether it may run on tensors without data."""
    refused: str | None
    """Why it cannot be managed."""
    makes_new: bool
    """Whether it returns anything but what it writes."""

    ordinary: tuple[int, ...]
    """Places of results that stay ordinary tensors."""
    unwritten: bool
    """Whether it returns memory as it is."""

    shaped: bool
    """Whether it reads no values, but how its first argument lies."""
    pointwise: bool
    """Whether it computes each element by itself, or nothing at all."""
    part: bool
    """Whether it makes the gradient of a slice."""
    adds: bool
    """Whether it adds two tensors."""
    other_gradient: bool
    """Whether its gradient may have other last bits than that of plain PyTorch, and nobody was told."""

    def again(self, tensors: Sequence[Tensor]) -> Manner:
        """What a second run of this call does."""
        if self.manner is not None:
            return self.manner
        return manner(self.func, next((t.device.type for t in tensors if t.device.type != "cpu"), "cpu"))

    def stays_ordinary(self, result: Any) -> bool:
        """Whether a result is for the host: a list of whole numbers that is about to be filled in."""
        return (
            self.unwritten
            and result.dtype == torch.int64
            and result.device.type == "cpu"
            and result.dim() == 1
        )

    def writes(self, args: tuple[Any, ...]) -> tuple[int | str, ...]:
        """Places or names of the arguments that this call writes."""
        if self.silent and len(args) > _TRAINING and not args[_TRAINING]:
            return ()
        return self.written


_known: dict[Any, Operator] = {}


def operator(func: Any) -> Operator:
    """What is known of an operator."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = _read(func, len(_known))
    return found


def _read(func: Any, key: int) -> Operator:
    schema = func._schema
    written: list[int | str] = []
    for place, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        if alias is None:
            continue
        if alias.is_write:
            written.append(argument.name if argument.kwarg_only else place)
    silent = _SILENT_WRITES.get(schema.name)
    makes_new = False
    for result in schema.returns:
        alias = result.alias_info
        makes_new |= alias is None or not alias.is_write
    refused = None
    if torch.Tag.inplace_view in func.tags or schema.name in (
        "aten::resize_",
        "aten::set_",
        "aten::resize_as_",
    ):
        refused = "changes the shape of a tensor in place"
    # Operators called unsafe return views and do not say so; other people's may do anything.
    honest = func.namespace == "aten" and "unsafe" not in schema.name
    return Operator(
        func=func,
        key=key,
        written=tuple(written) or silent or (),
        silent=silent is not None,
        fresh=honest
        and [r.alias_info for r in schema.returns] == [None]
        and str(schema.returns[0].type) == "Tensor",
        is_known=func.namespace in KNOWN,
        manner=None if func.namespace not in KNOWN or schema.name in UNORDERED else manner(func),
        refused=refused,
        makes_new=makes_new,
        unwritten=schema.name == "aten::empty",
        shaped=schema.name in _SHAPED and schema.overload_name == "",
        pointwise=torch.Tag.pointwise in func.tags or func.is_view,
        part=schema.name in _PARTS and schema.overload_name == "",
        adds=schema.name == "aten::add" and schema.overload_name == "Tensor",
        other_gradient=f"{schema.name}.{schema.overload_name}".rstrip(".") in _OTHER_GRADIENT,
        ordinary=_READ_ON_THE_HOST.get(schema.name, ()),
    )
