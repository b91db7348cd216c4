"""Gradients of views of what was written, under a memory budget.

Where the memory of a view is written, autograd makes the view's history anew when it is next used. For plain
tensors that is one ``AsStridedBackward``; for tensors of a subclass it runs the operators of the view again
(``TBackward``, ``SliceBackward``), whose gradients have the same numbers and may lie otherwise. How they lie
decides in which order later kernels add up. So they are laid out here as autograd lays out those of plain
tensors.

Not here: what a write does to values (``writes``).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from rk._online.managed import Managed

__all__ = ["WrittenViews"]


class WrittenViews:
    """The views whose memory was written since they were last used."""

    def __init__(self) -> None:
        """None so far."""
        self._views: dict[int, tuple[weakref.ref[Managed], int]] = {}
        """With the version that each had before, by which autograd tells."""
        self._told = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._views)

    def written(self, wrappers: Iterable[Managed | None]) -> None:
        """Before a write: these share the memory."""
        for one in wrappers:
            if one is not None and id(one) not in self._views and one._is_view() and one.requires_grad:
                number = id(one)
                gone = weakref.ref(one, lambda _, number=number: self._views.pop(number, None))
                self._views[number] = gone, one._version

    def used(self, tensors: Sequence[Tensor]) -> None:
        """By a call that autograd records, which has made their histories anew by now."""
        for tensor in tensors:
            found = self._views.get(id(tensor))
            if found is None or not tensor.requires_grad:
                continue
            del self._views[id(tensor)]
            # Autograd does not see a write through `.data`, and keeps the history.
            if tensor._version != found[1]:
                self._lay_out(tensor)

    def _lay_out(self, view: Tensor) -> None:
        base = view._base
        node = _made_last(view, base)
        if node is None or base.dtype != view.dtype:
            return
        if _overlaps(view):
            self._tell()
            return
        size, stride = base.size(), base.stride()

        def as_strided(gradients: Sequence[Tensor | None], _: Sequence[Tensor | None]) -> Any:
            (gradient,) = gradients
            if gradient is None or gradient.stride() == stride:
                return None
            return (gradient.new_empty_strided(size, stride).copy_(gradient),)

        node.register_hook(as_strided)

    def _tell(self) -> None:
        if self._told:
            return
        self._told = True
        warnings.warn(
            "rk: a view that shows some of its memory several times (expand, unfold) was written to, and is "
            "used again: under a memory budget autograd adds up its gradient in another order, so last bits "
            "may differ from those of plain PyTorch. They are the same with every budget",
            stacklevel=2,
        )


def _made_last(view: Tensor, base: Tensor) -> Any:
    """Of the nodes that stand for a view, the one whose gradient is the base's; None without any."""
    end, node = base.grad_fn, view.grad_fn
    while node is not None:
        # A node that is more than a view has several.
        if len(node.next_functions) != 1:
            return None
        ((following, _),) = node.next_functions
        if following is None:
            return None
        if following is end or (end is None and hasattr(following, "variable")):
            return node
        node = following
    return None


def _overlaps(view: Tensor) -> bool:
    """Whether two elements of it may be one in memory."""
    end = 0
    for stride, size in sorted(zip(view.stride(), view.size(), strict=True)):
        if size > 1 and stride <= end:
            return True
        end += (size - 1) * stride
    return False
