"""Dynamic tensor rematerialization: a memory budget for models whose graph changes at every step.

::

    with rk.memory_budget("2GiB"):
        loss = model(tree)
        loss.backward()

Nothing is known of the future and nothing is traced: when memory is full, the value that is cheapest to get
back for its size and longest unused is dropped, and computed again when it is needed, with the same kernels
and the same random numbers. The rules are those of Kirisame et al., "Dynamic Tensor Rematerialization", ICLR
2021; the calls :func:`checkpoint`, :func:`decheckpoint`, :func:`set_memory_budget` are those of its
prototype.

The promise: what operators make is never more than the budget when an operator starts, and at most the
outputs of that one operator above it until it is done; operators' own scratch memory is theirs. Weights,
inputs and other tensors made outside do not count, unless ``scope="total"``. If the budget cannot be met,
:class:`OutOfMemoryError` names what stands in the way.

Not here: planning ahead for graphs that stay the same (``rk.compile``); operators that change shapes in place
(``resize_``, ``transpose_``, ...) are refused.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack
from torch.utils.data import get_worker_info

from rk._online.dispatch import Managed, OutOfMemoryError, Runtime
from rk._online.managed import BudgetMode, is_of_parts
from rk._rk import budget_bytes

__all__ = [
    "OutOfMemoryError",
    "checkpoint",
    "decheckpoint",
    "is_checkpoint",
    "memory_budget",
    "reset_statistics",
    "set_memory_budget",
    "statistics",
    "unset_memory_budget",
]


class _Mode(BudgetMode):
    # They are refused by name.
    supports_higher_order_operators = True

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self.runtime = runtime
        # Those that this one is inside of, and how many are inside of this one: the innermost budget is the
        # one that holds.
        self.around: list[_Mode] = []
        self.inside = 0

    def __enter__(self) -> _Mode:
        self.around = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, _Mode)]
        for mode in self.around:
            mode.inside += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for mode in self.around:
            mode.inside -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.inside or get_worker_info() is not None:
            # The worker of a data loader is a process of its own, whose memory is no part of the step's.
            return func(*args, **(kwargs or {}))
        if FakeTensor in types:
            # Somebody traces a graph: there is no memory in it.
            return func(*args, **(kwargs or {}))
        if any(map(is_of_parts, types)):
            return NotImplemented
        return self.runtime.dispatch(func, args, kwargs or {})


def _calibrate() -> None:
    """Adds the gradients of two slices, which nobody else holds: so many hold what autograd is adding to."""
    with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad():
        runtime = Runtime(None, "h_lru", total=False, seed=0, patience=1.0, log=None)
        runtime.calibrates = True
        with _Mode(runtime):
            x = torch.ones(2, requires_grad=True) * 2
            (x[:1].sum() + x[1:].sum()).backward()


def _bytes(budget: int | str | None) -> int | None:
    if budget is None:
        return None
    if isinstance(budget, str):
        return budget_bytes(budget)
    if budget <= 0:
        raise ValueError(f"a budget of {budget} bytes")
    return int(budget)


class memory_budget:  # noqa: N801 - reads as a statement
    """A context in which what operators make keeps within a number of bytes.

    A context can be entered again; tensors that it made live on after it and stay managed, gradients of
    weights become ordinary tensors.
    """

    def __init__(
        self,
        budget: int | str | None,
        *,
        heuristic: str = "h_dtr_eq",
        scope: str = "activations",
        log: str | None = None,
        patience: float = 1.0,
        seed: int = 0,
        segments: bool = False,
    ) -> None:
        """A budget that is obeyed while the context is entered.

        Args:
            budget: Bytes, ``"2GiB"`` or ``"500MB"``; None for no limit.
            heuristic: Whom to evict, any of DTR's: ``h_dtr_eq``, ``h_dtr``, ``h_dtr_local``, ``h_lru``,
                ``h_size``, ``h_msps``.
            scope: ``"activations"`` counts what is made inside, ``"total"`` also what was made outside and is
                used inside.
            log: A file for the calls, in the format of DTR's simulator (``rk-simrd``).
            patience: The share of the time that recomputation may take, 1 for all of it; more is called
                thrashing and raised, after ten seconds.
            seed: Of the heuristics that draw.
            segments: Whether parts of the run that recur are recognised, planned once and weighed as a whole;
                with ``h_dtr_eq``, ``h_dtr_local``, ``h_lru`` and ``h_size``.

        Raises:
            ValueError: The scope, the heuristic or the budget is none.
        """
        if scope not in ("activations", "total"):
            raise ValueError(f"scope {scope!r}: 'activations' or 'total'")
        self.runtime = Runtime(
            _bytes(budget),
            heuristic,
            total=scope == "total",
            seed=seed,
            patience=patience,
            log=log,
            segments=segments,
        )
        self._modes: list[_Mode] = []
        if Runtime.alone is None:
            _calibrate()

    def __enter__(self) -> memory_budget:
        """All operators from now on, backward ones included."""
        mode = _Mode(self.runtime)
        self._modes.append(mode)
        mode.__enter__()
        self.runtime.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gradients become ordinary tensors."""
        self._modes.pop().__exit__(kind, error, trace)
        self.runtime.leave(failed=kind is not None)

    def set_budget(self, budget: int | str | None) -> None:
        """Another budget from now on.

        Args:
            budget: Bytes, ``"2GiB"`` or ``"500MB"``; None for no limit.
        """
        self.runtime.set_budget(_bytes(budget))

    def statistics(self) -> dict[str, float]:
        """What was counted since the last reset.

        Returns:
            Bytes, counts and times by name; ``decision_ns`` is what the core took for all ``calls``.
        """
        return self.runtime.statistics()

    def reset_statistics(self) -> None:
        """Starts the statistics anew."""
        self.runtime.core.reset_statistics()
        self.runtime.unmanaged.reset()

    def annotate(self, mark: str) -> None:
        """Writes a mark to the log.

        Args:
            mark: ``START`` or ``BACKWARD``.
        """
        self.runtime.core.annotate(mark)


_default: memory_budget | None = None


def _the_default() -> memory_budget:
    global _default
    if _default is None:
        _default = memory_budget(None)
    return _default


def set_memory_budget(budget: int | str | None) -> None:
    """The budget of the tensors that :func:`checkpoint` manages.

    Args:
        budget: Bytes, ``"2GiB"`` or ``"500MB"``; None for no limit.
    """
    _the_default().set_budget(budget)


def unset_memory_budget() -> None:
    """No limit for the tensors that :func:`checkpoint` manages."""
    set_memory_budget(None)


def statistics() -> dict[str, float]:
    """As :meth:`memory_budget.statistics`, of the tensors that :func:`checkpoint` manages.

    Returns:
        Bytes, counts and times by name.
    """
    return _the_default().statistics()


def reset_statistics() -> None:
    """Starts the counters of :func:`statistics` anew."""
    _the_default().reset_statistics()


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return _the_default().runtime.adopt(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Managed) -> Tensor:
        return tensor.plain()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def checkpoint(tensor: Tensor) -> Tensor:
    """The tensor as a managed one. No context is needed.

    Args:
        tensor: An ordinary tensor. It is never evicted itself; what operators make of it is.

    Returns:
        A tensor with the same value that a budget manages.
    """
    return tensor if isinstance(tensor, Managed) else _Enter.apply(tensor)


def decheckpoint(tensor: Tensor) -> Tensor:
    """A managed tensor as an ordinary one.

    Args:
        tensor: A managed tensor, or an ordinary one, which is returned as it is.

    Returns:
        An ordinary tensor with the same value.
    """
    return _Leave.apply(tensor) if isinstance(tensor, Managed) else tensor


def is_checkpoint(tensor: Tensor) -> bool:
    """Whether a budget manages this tensor.

    Args:
        tensor: Any tensor.

    Returns:
        True for what :func:`checkpoint` returned, and for what operators made of it.
    """
    return isinstance(tensor, Managed)
