"""How operators run under a memory budget: between autograd, which sees managed tensors, and the kernels.

Every operator call of forward and backward comes through :meth:`Runtime.dispatch`, below autograd. Its
results are given out as :class:`Managed` tensors, which have shape, strides and a handle of the core, and no
data; autograd saves those, so what it saves can be evicted. Before an operator runs, the core gives its
operands their values, evicting and computing again as it sees fit; all that happens here is what it says.

In-place operators become pure: the storage that they write is a new one to the core, and all managed tensors
in the old one move over. What was made outside (weights, inputs) is written in place; if something that may
be computed again has read it, either that something is settled, which is computed and kept for good, or a
copy of the old value is kept for it.

Not here: decisions (``rk._rk``), the interface for users (``online``), replays (``replay``).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from rk._graph.repetition import Manner
from rk._online.managed import Managed, held
from rk._online.operators import Operator, operator
from rk._online.outside import Outside, flat_storage
from rk._online.replay import (
    Overwrite,
    Replay,
    Restride,
    Slot,
    flat,
    lies_like,
    map_tensors,
    read_as,
    reshaped,
    scan,
)
from rk._online.segments import Spellings
from rk._online.sequence import grown
from rk._online.sizes import foreseen, measured
from rk._online.sums import Sums
from rk._online.unmanaged import Unmanaged, kind_of
from rk._rk import OnlineRuntime, OverBudget

__all__ = ["Managed", "OutOfMemoryError", "Runtime"]

_GIVEN_AWAY = (
    "`x.data = y` was to give a tensor the memory of one that a budget of rk manages, which is elsewhere: "
    "write x.copy_(y) under torch.no_grad()"
)
"""What is raised when a kernel asks for the memory of a managed tensor."""


def in_backward() -> bool:
    """Whether autograd is running backward, and not for a graph of its own (higher-order gradients)."""
    return torch._C._current_graph_task_id() >= 0 and not torch.is_grad_enabled()


class OutOfMemoryError(torch.OutOfMemoryError):
    """The budget cannot be met: all that is in memory is locked by a running operator, or pinned.

    ``locked``: the largest of those storages as (operator that made it, bytes, whether it is pinned), largest
    first; ``wanted_bytes``: what the operator asked for; ``in_use_bytes``: what is in memory.
    """

    def __init__(self, message: str, locked: list[tuple[str, int, bool]], wanted: int, in_use: int) -> None:
        """From the numbers of the core."""
        named = ", ".join(
            f"{size:,} B {'pinned' if pinned else 'locked'} from {name}" for name, size, pinned in locked
        )
        super().__init__(
            f"{message}. By operator: {named}. {wanted + in_use:,} B would have been enough here"
        )
        self.locked = locked
        self.wanted_bytes = wanted
        self.in_use_bytes = in_use


class Runtime(Sums):
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
        self.core = OnlineRuntime(budget, heuristic, seed=seed, patience=patience, log=log, segments=segments)
        self.spellings = Spellings() if segments else None
        # Managed tensors may be used by several threads.
        self.lock = threading.RLock()
        # Whether tensors made outside count.
        self.total = total
        self.logs = log is not None
        self.peeking = False
        self.adopting = False
        self.unmanaged = Unmanaged(self.core)
        self.outside = Outside(self.core)
        # Managed tensors by the core's ids, which are given again: an entry whose tensor is gone is stale.
        self.wrappers: dict[int, weakref.ref[Managed]] = {}
        # Weights that were read, whose gradients become ordinary at the end.
        self.leaves: dict[int, weakref.ref[Tensor]] = {}

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
        self._settle_what_is_held(1.0)
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

    def _settle_what_is_held(self, share: float) -> bool:
        """Keeps the values that the program holds, so that their past is not kept, if all of them take no
        more than this share of the budget; says whether. What autograd alone holds may be evicted as ever.
        """
        leaves = (reference() for reference in self.leaves.values())
        gradients = (leaf.grad for leaf in leaves if leaf is not None)
        ids = [one._handle.id for one in gradients if type(one) is Managed and one._runtime is self]
        ids += held(self.wrappers.values())
        return self.core.settle_all(ids, share)

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
        if known.written:
            writes = known.writes(args)
            if writes:
                return self._write(func, known, writes, template, options, tensors)
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

    def _begin(
        self, replay: Replay, known: Operator, tensors: list[Tensor], direct: dict[int, Tensor] | None = None
    ) -> tuple[list[int], list[Any]]:
        """Holds a call's operands; returns their ids and values. Those in ``direct`` have values and no
        ids.
        """
        ids = []
        for place, tensor in enumerate(tensors):
            if direct and place in direct:
                continue
            if type(tensor) is Managed:
                if tensor._runtime is self:
                    ids.append(tensor._handle.id)
                    continue
                tensor = self._foreign(tensor)
            ids.append(self._constant(replay, place, tensor))
        copies = [t.untyped_storage() for t in replay.scratch.values()]
        ids += [self.core.constant(copy._cdata, copy.nbytes()) for copy in copies]
        operands = self._hold(replay, known, ids, tensors)
        del operands[len(operands) - len(copies) :]
        for place, value in sorted(direct.items()) if direct else ():
            operands.insert(place, value)
        for place, (tensor, _, _) in replay.outside.items():
            operands[place] = tensor
        return ids, operands

    def _hold(self, replay: Replay, known: Operator, ids: list[int], tensors: list[Tensor]) -> list[Any]:
        try:
            return self.core.begin(known.key, ids)
        except OverBudget:
            # A write to what is settled makes a copy first.
            moved = replay.written if type(replay) is Overwrite else []
            copied = any(self.core.is_settled(tensors[p]._handle.id) for p in moved)
            exact = foreseen(replay, tensors) if known.is_known and not copied else None
            if exact is None:
                raise
        return self.core.begin(known.key, ids, exact)

    def _foreign(self, tensor: Managed) -> Tensor:
        """A copy of what another budget manages. It counts as long as some call may read it."""
        known = tensor._copies.get(self) if tensor._copies is not None else None
        copy = None if known is None else known()
        if copy is None:
            copy = tensor.plain()
            self.unmanaged.add(copy, "foreign", "a copy of what another budget manages")
            if tensor._copies is None:
                tensor._copies = weakref.WeakKeyDictionary()
            tensor._copies[self] = weakref.ref(copy)
        return copy

    def _constant(self, replay: Replay, place: int, tensor: Tensor) -> int:
        """The id of an ordinary tensor's storage, which stays as long as some call reads it."""
        if kind_of(tensor) not in (None, "quantized"):
            replay.keep_outside(place, tensor, None, self.outside)
            return self.core.constant(id(tensor), 0)
        storage = tensor.untyped_storage()
        replay.keep_outside(place, tensor, storage, self.outside)
        self.outside.reads(storage._cdata, tensor)
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in self.leaves:
            self.leaves[id(tensor)] = weakref.ref(tensor)
        return self.core.constant(storage._cdata, storage.nbytes() if self.total else 0)

    def _first_run(
        self, replay: Replay, known: Operator, operands: list[Any], spelled: bool = True
    ) -> tuple[Any, int]:
        if self.spellings and spelled:
            self.core.spell(self.spellings.number(replay, operands))
        watched = known.again(operands) in (Manner.RANDOM, Manner.WATCHED)
        start = perf_counter_ns()
        result = (replay.run_watched if watched else replay.run)(operands)
        return result, perf_counter_ns() - start

    def _give_out(
        self,
        replay: Replay,
        known: Operator,
        ids: list[int],
        tensors: list[Tensor],
        operands: list[Any],
        result: Any,
        nanos: int,
    ) -> Any:
        """Links the call that made ``result`` and wraps its tensors."""
        replay.ordinary = known.ordinary
        outputs = replay.outputs(result)
        given = {id(operand): tensor for operand, tensor in zip(operands, tensors, strict=True)}
        kinds = [kind_of(o) for o in outputs]
        host = known.unwritten and known.stays_ordinary(result)
        if not outputs or host or any(kinds) or any(id(o) in given for o in outputs):
            self.core.abandon(ids)
            for output, kind in zip(outputs, kinds, strict=True):
                if not host and id(output) not in given:
                    self.unmanaged.add(output, kind or "ordinary", known.func, operands)
            return map_tensors(result, lambda t: given.get(id(t), t))
        sizes = measured(replay, known.fresh, operands, outputs)
        if not self.adopting and all(size < 0 and -1 - size in replay.outside for size in sizes):
            # A view of something made outside is made outside.
            self.core.abandon(ids)
            return result
        values = replay.separated(outputs)
        keep = in_backward()
        handles = self.core.finish(known.key, ids, replay, values, sizes, nanos, [], keep)
        if known.again(operands) is Manner.ONCE:
            self._keep(handles, replay)
        wrapped = {id(o): self.wrap(v, h) for o, v, h in zip(outputs, values, handles, strict=True)}
        if keep:
            for wrapper, size in zip(wrapped.values(), sizes, strict=True):
                wrapper._own = size >= 0
        return map_tensors(result, lambda t: wrapped.get(id(t), t))

    def _keep(self, handles: Sequence[Any], replay: Replay) -> None:
        """The results of a call that must not run again stay in memory."""
        replay.once = True
        replay.outside.clear()
        for handle in handles:
            self.core.settle(handle.id)

    def wrap(self, value: Tensor, handle: Any) -> Managed:
        """A managed tensor for a value that the core has under this handle."""
        wrapper = self.wrap_as(
            handle, value.size(), value.stride(), value.storage_offset(), value.dtype, value.device
        )
        return read_as(wrapper, value)

    def wrap_as(self, handle: Any, size: Any, stride: Any, offset: Any, dtype: Any, device: Any) -> Managed:
        """A managed tensor that lies so, for a value that the core has or will have."""
        wrapper = Tensor._make_wrapper_subclass(
            Managed, size, strides=stride, storage_offset=offset, dtype=dtype, device=device
        )
        # `x.data = wrapper` gives an ordinary tensor the memory that a wrapper does not have.
        torch._C._set_storage_data_ptr_access_error_msg(wrapper.untyped_storage()._cdata, _GIVEN_AWAY)
        wrapper._runtime = self
        wrapper._handle = handle
        self.wrappers[handle.id] = weakref.ref(wrapper)
        return wrapper

    def _write(
        self,
        func: Any,
        known: Operator,
        writes: tuple[int | str, ...],
        template: list[Any],
        options: dict[str, Any],
        tensors: list[Tensor],
    ) -> Any:
        """Runs an operator that writes to some of its arguments."""
        if known.refused:
            raise NotImplementedError(f"{func} {known.refused}: not under a memory budget")
        slots = [
            slot for w in writes for slot in flat([template[w] if isinstance(w, int) else options.get(w)])
        ]
        places = [slot.place for slot in slots if type(slot) is Slot]
        direct = {p: value for p in places if (value := self._written_in_place(func, tensors[p])) is not None}
        moved = [p for p in places if p not in direct]
        replay = Overwrite(func, template, options, moved)
        once = known.again(tensors) is Manner.ONCE
        if known.makes_new and not once:
            replay.scratch = {place: value.clone() for place, value in direct.items()}
        ids, operands = self._begin(replay, known, tensors, direct)
        try:
            if len(moved) == len(places) == 1 and not known.makes_new and not once:
                growth = self.core.extendable(ids[moved[0]], ids)
                if growth is not None:
                    return self._grow(replay, known, ids, tensors, operands, growth)
            shared = [self.core.sharers(tensors[p]._handle.id) for p in moved]
            if len({s for group in shared for s in group}) < sum(len(group) for group in shared):
                raise NotImplementedError(f"{func} writes twice to one storage: not under a memory budget")
            replay.whole = [len(group) > 1 for group in shared]
            kept = [self.core.is_settled(tensors[p]._handle.id) for p in moved]
            for place in (p for p, keep in zip(moved, kept, strict=True) if keep):
                # Something that may be computed again reads the old value, which has no past to come from.
                operands[place] = reshaped(operands[place].untyped_storage().clone(), operands[place])
            result, nanos = self._first_run(replay, known, operands)
        except BaseException:
            self.core.abandon(ids)
            raise
        given = {id(operand): tensor for operand, tensor in zip(operands, tensors, strict=True)}
        fresh = [r for r in flat(result) if isinstance(r, Tensor) and id(r) not in given]
        if not moved and not fresh:
            self.core.abandon(ids)
            return map_tensors(result, lambda t: given[id(t)])
        written = [
            flat_storage(operands[p]) if w else operands[p] for p, w in zip(moved, replay.whole, strict=True)
        ]
        values = written + fresh
        sizes = [value.untyped_storage().nbytes() for value in values]
        consumed = [tensors[p]._handle.id for p, keep in zip(moved, kept, strict=True) if not keep]
        handles = self.core.finish(known.key, ids, replay, values, sizes, nanos, consumed, False)
        for place, group, handle, keep in zip(moved, shared, handles, kept, strict=False):
            self._move(tensors[place], group, handle, operands[place])
            if keep:
                self.core.settle(tensors[place]._handle.id)
        if once:
            self._keep(handles, replay)
        wrapped = {id(v): self.wrap(v, h) for v, h in zip(fresh, handles[len(moved) :], strict=True)}
        return map_tensors(result, lambda t: given[id(t)] if id(t) in given else wrapped[id(t)])

    def _grow(
        self,
        replay: Overwrite,
        known: Operator,
        ids: list[int],
        tensors: list[Tensor],
        operands: list[Any],
        growth: Any,
    ) -> Any:
        """Runs a write that becomes part of the call that made what it writes."""
        result, nanos = self._first_run(replay, known, operands, spelled=False)
        sequence, joined = grown(growth, replay, operands)
        self.core.extend(ids[replay.written[0]], joined, sequence, nanos, ids)
        given = {id(operand): tensor for operand, tensor in zip(operands, tensors, strict=True)}
        return map_tensors(result, lambda t: given[id(t)])

    def _written_in_place(self, func: Any, tensor: Tensor) -> Tensor | None:
        """The value to write to, if that is the tensor's own and nothing that may be computed again needs the
        old one.
        """
        if type(tensor) is not Managed:
            if kind_of(tensor) in (None, "quantized"):
                self._protect(tensor)
            return tensor
        if tensor._runtime is not self:
            raise NotImplementedError(f"{func} writes to a tensor of another memory budget")
        own = tensor._handle.id
        if not self.core.is_settled(own):
            return None
        (value,) = self.core.begin(0, [own])
        self.core.abandon([own])
        self._protect(value)
        return value if self.core.writable(own, False) else None

    def _protect(self, tensor: Tensor) -> None:
        """Before an ordinary tensor is overwritten: whatever may be computed again from it gets what it
        needs.
        """
        storage = tensor.untyped_storage()
        if not self.core.constant_is_read(storage._cdata):
            return
        self.outside.check("a write", tensor)
        # After a backward pass little is left that depends on a weight: the loss and gradients.
        if (
            tensor.requires_grad
            and self._settle_what_is_held(0.5)
            and not self.core.constant_is_read(storage._cdata)
        ):
            return
        self.core.replace_constant(storage._cdata, flat_storage(tensor).clone(), storage.nbytes())

    def _move(self, tensor: Managed, group: list[int], handle: Any, value: Tensor) -> None:
        """All managed tensors of an overwritten storage become tensors of the new one."""
        if len(group) == 1:
            tensor._handle = handle
            self.wrappers[handle.id] = weakref.ref(tensor)
            return
        for member in group:
            wrapper = self.wrappers[member]()
            if wrapper is None:
                continue
            view = Restride(wrapper)
            self.core.begin(-1, [handle.id], 0)
            lies = reshaped(value.untyped_storage(), wrapper)
            (own,) = self.core.finish(-1, [handle.id], view, [lies], [-1], 0, [], False)
            wrapper._handle = own
            self.wrappers[own.id] = weakref.ref(wrapper)
