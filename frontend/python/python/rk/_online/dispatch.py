"""How operators run under a memory budget: between autograd, which sees managed tensors, and the kernels.

Every operator call of forward and backward comes through :meth:`Runtime.dispatch`, below autograd. Its
results are given out as managed tensors; autograd saves those, so what it saves can be evicted.

Not here: decisions (``rk._rk``), the interface for users (``budget``), how a call runs (``calls``), writes
(``writes``), sums of gradients (``sums``).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import Tensor

from rk._online.calls import in_backward
from rk._online.managed import Managed
from rk._online.operators import Operator, operator
from rk._online.replay import Replay, lies_like, scan
from rk._online.sums import Sums
from rk._online.writes import Writes
from rk._rk import OnlineRuntime, OverBudget

__all__ = ["Managed", "OutOfMemoryError", "Runtime"]


class OutOfMemoryError(torch.OutOfMemoryError):
    """The budget cannot be met: all that is in memory is locked by a running operator, or pinned.

    ``locked``: the largest of those storages as (operator that made it, bytes, whether it is pinned), largest
    first; ``wanted_bytes``: what the operator asked for; ``in_use_bytes``: what is in memory.
    """

    def __init__(self, message: str, locked: list[tuple[str, int, bool]], wanted: int, in_use: int) -> None:
        """From the numbers of the core.

        Args:
            message: What could not be done.
            locked: The largest storages that are in the way, as the attribute has them.
            wanted: Bytes that the operator asked for.
            in_use: Bytes that are in memory.
        """
        named = ", ".join(
            f"{size:,} B {'pinned' if pinned else 'locked'} from {name}" for name, size, pinned in locked
        )
        super().__init__(
            f"{message}. By operator: {named}. {wanted + in_use:,} B would have been enough here"
        )
        self.locked = locked
        self.wanted_bytes = wanted
        self.in_use_bytes = in_use


class Runtime(Writes, Sums):
    """One budget and the tensors that it manages."""

    def __init__(
        self,
        budget: int | None,
        heuristic: str,
        *,
        total: bool,
        seed: int,
        patience: float,
        log: str | None,
        segments: bool = False,
    ) -> None:
        """As :class:`rk.memory_budget` says."""
        core = OnlineRuntime(budget, heuristic, seed=seed, patience=patience, log=log, segments=segments)
        super().__init__(core, total=total, segments=segments)
        # Managed tensors may be used by several threads.
        self.lock = threading.RLock()
        self.logs = log is not None

    def adopt(self, tensor: Tensor) -> Managed:
        """A managed tensor for one made outside, with which it shares its memory."""
        self.adopting = True
        try:
            return self.dispatch(torch.ops.aten.detach.default, (tensor,), {})
        finally:
            self.adopting = False

    def set_budget(self, budget: int | None) -> None:
        """Another budget, and what that needs evicted."""
        try:
            with self.lock:
                self.core.set_budget(budget)
        except OverBudget as error:
            raise OutOfMemoryError(*error.args) from None

    def statistics(self) -> dict[str, float]:
        """As :meth:`rk.memory_budget.statistics`."""
        with self.lock:
            return {**self.core.statistics(), **self.unmanaged.statistics()}

    def enter(self) -> None:
        """The context is entered."""
        self.outside.enter()

    def leave(self, *, failed: bool) -> None:
        """The context is left: gradients of weights become ordinary tensors, and what is small of what lives
        on is settled.
        """
        self.outside.entered -= 1
        # No operator runs here, so autograd is above: what is computed again must not be recorded.
        with self.lock, torch._C._AutoDispatchBelowAutograd(), torch.no_grad():
            try:
                if not failed:
                    self._give_back()
            except OverBudget as error:
                raise OutOfMemoryError(*error.args) from None
            finally:
                found = self.core.statistics()
                self.outside.leave(self.core.budget or found["peak_bytes"])

    def _give_back(self) -> None:
        leaves = [leaf for leaf in (reference() for reference in self.leaves.values()) if leaf is not None]
        ours = [leaf for leaf in leaves if type(leaf.grad) is Managed and leaf.grad._runtime is self]
        # All of them first: the budget has to hold for all of them together.
        for leaf in ours:
            self.core.settle(leaf.grad._handle.id)
        # As long as gradients count: the core does not see them any more when they are given back.
        self.settle_what_is_held(1.0)
        for leaf in ours:
            own = leaf.grad._handle.id
            (value,) = self.core.begin(0, [own])
            self.core.abandon([own])
            alone = value.untyped_storage().nbytes() == value.nbytes
            leaf.grad = value if alone else value.clone()
        for leaf in leaves:
            if leaf.grad is not None:
                self.unmanaged.forget(leaf.grad)
        self.leaves.clear()
        # What the last operator made is made good.
        self.core.begin(0, [])
        self.core.flush_log()

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs one operator on managed and ordinary tensors."""
        try:
            with self.lock:
                return self._dispatch(func, args, kwargs)
        except OverBudget as error:
            raise OutOfMemoryError(*error.args) from None

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(func, torch._ops.HigherOrderOperator):
            raise NotImplementedError(
                f"{func.name()} calls graphs, which no memory budget sees into: call it outside of the "
                "context, on rk.decheckpoint(x)"
            )
        known = operator(func)
        if (known.part or known.adds) and not kwargs and in_backward():
            done = self.in_backward(known, args)
            if done is not None:
                return done
        tensors: list[Tensor] = []
        if known.shaped and type(args[0]) is Managed:
            kwargs = {**kwargs, "device": kwargs.get("device") or args[0].device}
            template = [lies_like(args[0]), *args[1:]]
        else:
            template = scan(args, tensors)
        options = dict(zip(kwargs, scan(list(kwargs.values()), tensors), strict=True)) if kwargs else kwargs
        if self.written_views and torch.is_grad_enabled():
            self.written_views.used(tensors)
        if known.written:
            writes = known.writes(args)
            if writes:
                return self.write(func, known, writes, template, options, tensors)
        if known.other_gradient and any(one.requires_grad for one in tensors):
            _tell(known)
        replay = Replay(func, template, options)
        ids, operands = self._begin(replay, known, tensors)
        try:
            if self.peeking:
                self.core.abandon(ids)
                return operands[0].clone()
            result, nanos = self._first_run(replay, known, operands)
        except BaseException:
            self.core.abandon(ids)
            raise
        return self._give_out(replay, known, ids, tensors, operands, result, nanos)


def _tell(known: Operator) -> None:
    """Once, of an operator whose gradient has other bits where somebody looks on."""
    known.other_gradient = False
    warnings.warn(
        f"rk: autograd computes the gradient of {known.func} by another formula under a memory budget, as it "
        "does under any mode or for a subclass of tensors: last bits, and signs of zeros, may differ from "
        "those of plain PyTorch. They are the same with every budget",
        stacklevel=2,
    )
