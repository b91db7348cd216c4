"""Adding up gradients under a budget: later, part by part, and in place.

Not here: what a part is (``gradients``); how a call runs (``calls``).
"""

from __future__ import annotations

from typing import Any, ClassVar

from rk._online.calls import Calls
from rk._online.gradients import Part, Parts, Seen, same_layout, seen, shape_of
from rk._online.managed import Managed
from rk._online.operators import Operator

__all__ = ["Sums"]


class Sums(Calls):
    """What a runtime does in a backward pass with gradients of slices and with sums."""

    # How many hold a tensor that autograd is adding to, and nobody else. Unknown: nothing is added in place.
    alone: ClassVar[Seen | None] = None
    # Whether the sum that comes is known to be such a one. A sum of the user's must never be the measure.
    calibrates = False

    logs: bool

    def in_backward(self, known: Operator, args: tuple[Any, ...]) -> Managed | None:
        """The result of a call in a backward pass, unless it has to be made as any other.

        What is logged has to run as the log says.
        """
        if self.logs:
            return None
        return self._defer(known, args) if known.part else self._add_up(known, args)

    def _defer(self, known: Operator, args: tuple[Any, ...]) -> Managed | None:
        """The gradient of a slice, made when somebody reads it."""
        part, shape = args[0], shape_of(known.func, args)
        if shape is None or type(part) is not Managed or part._runtime is not self:
            return None
        parts = Parts([Part(known.func, args[1:], part.numel())], shape)
        return self._give_out_later(parts, [part._handle.id], part)

    def _give_out_later(self, parts: Parts, ids: list[int], like: Managed) -> Managed:
        handle = self.core.defer(ids, parts, parts.numel * like.element_size())
        wrapper = self.wrap_as(handle, parts.shape, None, None, like.dtype, like.device)
        wrapper._parts = parts
        wrapper._own = True
        return wrapper

    def _pending(self, tensor: Managed) -> Parts | None:
        """The parts of a gradient that has not been made."""
        return None if tensor._parts is None or self.core.has_value(tensor._handle.id) else tensor._parts

    def _add_up(self, known: Operator, args: tuple[Any, ...]) -> Managed | None:
        """A sum whose first operand is of no use to anybody else: of parts, or in the memory of that one."""
        if len(args) != 2:
            return None
        total, other = args
        ours = type(total) is type(other) is Managed and total._runtime is other._runtime is self
        if not ours or not total._own or not same_layout(total, other):
            return None
        holders = seen(args)
        if self.calibrates:
            Sums.alone = holders
        if holders != Sums.alone:
            return None
        own = total._handle.id
        first, second = self._pending(total), self._pending(other)
        if first is not None and second is not None:
            both = first.plus(second)
            if both is not None:
                ids = [*self.core.read_by(own), *self.core.read_by(other._handle.id)]
                return self._give_out_later(both, ids, total)
        if first is not None:
            self.core.begin(-1, [own])
            self.core.keep(own)
            self.core.abandon([own])
        if not self.core.writable(own, True):
            return None
        one = second is not None and len(second.terms) == 1
        ids = [own, *(self.core.read_by(other._handle.id) if one else [other._handle.id])]
        value, more = self.core.begin(known.key, ids, 0)
        try:
            if one:
                second.terms[0].add_to(value, more)
            else:
                value.add_(more)
        finally:
            self.core.abandon(ids)
        return total
