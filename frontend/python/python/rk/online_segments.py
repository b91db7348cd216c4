"""How a call is spelled, so that the core recognises calls that recur.

Two calls are spelled alike exactly if they run the same operator with the same constants on operands of the
same shapes, strides, types and devices. Which operands those are is not part of it: the core knows where they
come from, and compares that itself.

Not here: what a segment is and what is done with it (``passes/dtr``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rk.online_replay import Replay, Slot

__all__ = ["spelling"]


def spelling(replay: Replay, operands: Sequence[Tensor]) -> str:
    """The text of a call that runs on these operands."""
    shapes = ";".join(f"{t.dtype}{t.device}{tuple(t.shape)}{_strides(t)}" for t in operands)
    return f"{replay.func}{_constants(replay.args)}{_constants(replay.kwargs)}{shapes}"


def _strides(tensor: Tensor) -> Any:
    return "" if tensor.is_contiguous() else tensor.stride()


def _constants(item: Any) -> str:
    """An argument with the tensors in it by their places."""
    if type(item) is Slot:
        return f"#{item.place}"
    if type(item) is list:
        return f"[{','.join(map(_constants, item))}]"
    if type(item) is dict:
        return f"{{{','.join(f'{name}={_constants(value)}' for name, value in item.items())}}}"
    return repr(item)
