"""Tensors whose values may be in memory or not.

Not here: what runs on them (``dispatch``).
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode_temporarily,
)

from rk._online.gradients import Parts
from rk._online.replay import flat

if TYPE_CHECKING:
    from rk._online.dispatch import Runtime

__all__ = ["BudgetMode", "Managed", "held"]

GIVEN_AWAY = (
    "the memory of a tensor that a budget of rk manages is elsewhere: what reads it past PyTorch's "
    "dispatcher (F.ctc_loss reads its lengths so) needs rk.decheckpoint(x), and in place of `x.data = y` "
    "write x.copy_(y) under torch.no_grad()"
)
"""What is raised when a kernel asks for the memory of a managed tensor."""


class BudgetMode(TorchDispatchMode):
    """A budget that is obeyed now."""

    runtime: Runtime


@contextlib.contextmanager
def out_of_budgets() -> Iterator[Runtime | None]:
    """As a mode is while it runs an operator, so that what it calls does not come back to it: without the
    innermost budget, whose runtime this is, and all that was entered in it.
    """
    modes = _get_current_dispatch_mode_stack()
    innermost: BudgetMode | None = None
    place = len(modes)
    for number, mode in enumerate(modes):
        if isinstance(mode, BudgetMode):
            innermost, place = mode, number
    with contextlib.ExitStack() as stack:
        for _ in modes[place:]:
            stack.enter_context(_pop_mode_temporarily())
        yield None if innermost is None else innermost.runtime


class Managed(Tensor):
    """A tensor whose value may be in memory or not. It is used like any other; what needs its data gets a
    copy.
    """

    _runtime: Runtime
    _handle: Any
    # What it is made of, if it had not been made when it was given out.
    _parts: Parts | None = None
    # What other budgets that have read it hold copies of it in.
    _copies: Any = None
    # Whether it was made in a backward pass, in memory of its own.
    _own = False

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Runs an operator where no budget is active: in the budget that its first managed argument belongs
        to.
        """
        if any(map(is_of_parts, types)):
            return NotImplemented
        with out_of_budgets() as runtime:
            for leaf in flat([*args, *(kwargs or {}).values()]):
                if isinstance(leaf, Managed):
                    return (runtime or leaf._runtime).dispatch(func, args, kwargs or {})
        raise AssertionError(f"{func} without a managed tensor")

    def plain(self) -> Tensor:
        """An ordinary tensor with the same value, cut off from autograd; shares no memory with this one."""
        value: Tensor = self
        # Inside of another budget the value comes out as one of its managed tensors.
        while type(value) is Managed:
            runtime = value._runtime
            runtime.peeking = True
            try:
                with torch.no_grad():
                    # Not detach: a view shares the version by which autograd notices writes.
                    value = torch.ops.aten.clone.default(value)
            finally:
                runtime.peeking = False
        return value

    def _ordinary(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls a method on the value, outside of all budgets."""
        value = self.plain()
        with _disable_current_modes():
            return getattr(value, method)(*args, **options)

    def as_subclass(self, cls: type) -> Any:
        """Refused: tensors of other classes whose operators give tensors of that class."""
        raise NotImplementedError(
            f"a tensor of class {cls.__name__} cannot be managed by a memory budget: make it outside of the "
            "context, or of rk.decheckpoint(x), and keep operators on it outside"
        )

    @property
    def data(self) -> Tensor:
        """The same value, cut off from autograd."""
        return torch._C.TensorBase.data.__get__(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        """Refused: the value would have two histories, of which one is computed again."""
        raise NotImplementedError(
            "x.data = y gives a tensor other memory behind the back of its memory budget: write x.copy_(y) "
            "under torch.no_grad(), or give the name x to y"
        )

    def __repr__(self, **options: Any) -> str:
        """The value, and that it is managed."""
        return f"Managed({self._ordinary('__repr__', **options)})"

    def __format__(self, spec: str) -> str:
        """As the value is formatted."""
        return self._ordinary("__format__", spec)

    def numpy(self, **options: Any) -> Any:
        """A copy of the value, which nothing can be written to unless ``force=True`` asks for a copy."""
        forced = options.get("force", False)
        # Where no gradients are recorded, as inside of a function of the user's, PyTorch gives it.
        if self.requires_grad and torch.is_grad_enabled() and not forced:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        array = self._ordinary("numpy", **options)
        return array if forced else _sealed(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """A copy of the value, which nothing can be written to unless a copy is asked for."""
        array = self._ordinary("__array__")
        wanted = array if dtype is None else array.astype(dtype, copy=False)
        return _sealed(array) if wanted is array and not copy else wanted

    def tolist(self) -> Any:
        """The value as nested lists."""
        return self._ordinary("tolist")

    def __dlpack__(self, **options: Any) -> Any:
        """A copy of the value, if one is asked for: others take what they get for the tensor's own memory."""
        if not options.get("copy"):
            raise RuntimeError(GIVEN_AWAY)
        return self._ordinary("__dlpack__", **options)

    def __reduce_ex__(self, protocol: int) -> Any:
        """Saved as an ordinary tensor."""
        with _disable_current_modes():
            return self._apart().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """An ordinary tensor with the same value."""
        if not self.is_leaf:
            raise RuntimeError("Only leaf tensors can be copied deeply: detach it, or decheckpoint it.")
        memo[id(self)] = value = self._apart()
        return value

    def _apart(self) -> Tensor:
        """An ordinary leaf with the same value, and a parameter if this is one."""
        value = self.plain()
        if isinstance(self, torch.nn.Parameter):
            return torch.nn.Parameter(value, self.requires_grad)
        return value.requires_grad_(self.requires_grad)

    def is_checkpoint(self) -> bool:
        """Whether a budget manages this tensor."""
        return True


def _sealed(array: Any) -> Any:
    """An array that is a copy where PyTorch gives the memory of the tensor itself: what were written to it
    would be lost, so NumPy refuses to write.
    """
    array.flags.writeable = False
    return array


def is_of_parts(kind: type) -> bool:
    """Whether operators on a class of tensors are its own: jagged ones, other people's. What it calls on its
    parts comes back, one by one.
    """
    return kind is not Managed and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__


def held(references: Iterable[weakref.ref[Managed]]) -> list[int]:
    """The ids of those tensors that others than autograd's graph hold: variables, modules, optimizers."""
    ids = []
    for reference in references:
        wrapper = reference()
        if wrapper is None:
            continue
        # One is this variable, one is the call's, and one is that of C++, if anything there holds the tensor.
        if sys.getrefcount(wrapper) - (wrapper._use_count() > 1) > 2:
            ids.append(wrapper._handle.id)
    return ids
