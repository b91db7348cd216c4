"""What the outputs of a call take: measured after its first run, or foreseen from the shapes of its operands.

Not here: who needs to know (``dispatch``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from rk._online.replay import Replay, fill, fill_kwargs, lies_like

__all__ = ["foreseen", "measured"]


def measured(replay: Replay, fresh: bool, operands: list[Any], outputs: list[Tensor]) -> list[int]:
    """Bytes of fresh outputs; -1 - place for views of an operand. ``fresh``: there is one output, and it is
    no view.
    """
    if fresh:
        return [outputs[0].untyped_storage().nbytes()]
    bases = {
        o.untyped_storage()._cdata: p
        for p, o in reversed(list(enumerate(operands)))
        if o.layout == torch.strided
    }
    sizes, seen, shared = [], set(), []
    for place, output in enumerate(outputs):
        storage = output.untyped_storage()
        if storage._cdata in bases:
            sizes.append(-1 - bases[storage._cdata])
            continue
        if storage._cdata in seen:
            shared.append(place)
            sizes.append(output.nbytes)
            continue
        seen.add(storage._cdata)
        sizes.append(storage.nbytes())
    if shared:
        replay.separate(shared)
    return sizes


def foreseen(replay: Replay, tensors: Sequence[Tensor]) -> int | None:
    """Bytes of a call's fresh outputs before it has run, or None if shapes alone do not say.

    A workspace has no elements in a run without data, whatever it takes in earnest.
    """
    kwargs = dict(replay.kwargs, device="meta") if "device" in replay.kwargs else replay.kwargs
    try:
        with _disable_current_modes(), torch.no_grad():
            shapes = [lies_like(t) for t in tensors]
            result = replay.func(*fill(replay.args, shapes), **fill_kwargs(kwargs, shapes))
    except (RuntimeError, NotImplementedError):
        return None
    outputs = replay.outputs(result)
    if any(o.device.type != "meta" or o.numel() == 0 for o in outputs):
        return None
    known = {shape.untyped_storage()._cdata for shape in shapes}
    fresh = {o.untyped_storage()._cdata: o.untyped_storage().nbytes() for o in outputs}
    return sum(bytes for storage, bytes in fresh.items() if storage not in known)
