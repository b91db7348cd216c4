"""Calls that write to their arguments, under a memory budget.

In-place operators become pure: the storage that they write is a new one to the core, and all managed tensors
in the old one move over. What was made outside (weights, inputs) is written in place; if something that may
be computed again has read it, either that something is settled, which is computed and kept for good, or a
copy of the old value is kept for it.

Not here: how a call runs (``calls``); what a write that joins an earlier call becomes (``sequence``).
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch

from rk._graph.repetition import Manner
from rk._online.calls import Calls
from rk._online.managed import Managed, held
from rk._online.operators import Operator
from rk._online.outside import flat_storage
from rk._online.replay import Overwrite, Restride, Slot, flat, map_tensors, reshaped
from rk._online.sequence import grown
from rk._online.unmanaged import kind_of
from rk._rk import OverBudget

__all__ = ["Writes"]

_aten = torch.ops.aten
_VIEWS = {
    _aten.transpose_.default: _aten.transpose.int,
    _aten.t_.default: _aten.t.default,
    _aten.squeeze_.default: _aten.squeeze.default,
    _aten.squeeze_.dim: _aten.squeeze.dim,
    _aten.squeeze_.dims: _aten.squeeze.dims,
    _aten.unsqueeze_.default: _aten.unsqueeze.default,
}
"""What makes of a tensor a view of itself, and what makes such a view."""
_TAKES_MEMORY = _aten.set_.source_Storage_storage_offset
"""Gives a tensor memory that is there, as ``torch.load`` does, and the batches of a loader's workers."""


class Writes(Calls):
    """What a runtime does when an operator writes to some of its arguments."""

    def write(
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
            if func in _VIEWS and self._is_alone(tensors[0]):
                return self._becomes_view(func, tensors[0], template[1:])
            if func is _TAKES_MEMORY and not tensors[0].numel():
                return self._takes_memory(tensors[0], *template[1:])
            raise NotImplementedError(f"{func} {known.refused}: not under a memory budget")
        slots = [
            slot for w in writes for slot in flat([template[w] if isinstance(w, int) else options.get(w)])
        ]
        places = [slot.place for slot in slots if type(slot) is Slot]
        for one in (tensors[place] for place in places):
            if type(one) is Managed and one._runtime is self:
                self.written_views.written(self._who_shares(one))
        direct = {p: value for p in places if (value := self._written_in_place(func, tensors[p])) is not None}
        moved = [p for p in places if p not in direct]
        replay = Overwrite(func, template, options, moved)
        # A second run of a call that writes to both kinds would need copies of what it writes outside. What
        # optimizers keep beside weights stays anyway.
        once = known.again(tensors) is Manner.ONCE or bool(moved and direct)
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

    def _who_shares(self, tensor: Managed) -> list[Managed | None]:
        """The managed tensors of the same memory; None for those that are gone."""
        return [self.wrappers[one]() for one in self.core.sharers(tensor._handle.id)]

    def _is_alone(self, tensor: Tensor) -> bool:
        """Whether a tensor is of this budget, and nobody else has its memory: of views that were made before,
        autograd would make the same views of the new shape.
        """
        if type(tensor) is not Managed or tensor._runtime is not self or tensor._is_view():
            return False
        return len(self.core.sharers(tensor._handle.id)) == 1

    def _becomes_view(self, func: Any, tensor: Managed, rest: list[Any]) -> Managed:
        """A managed tensor becomes a view of itself: nothing is written but how it lies."""
        view = self._dispatch(_VIEWS[func], (tensor, *rest), {})
        tensor._handle = view._handle
        self.wrappers[tensor._handle.id] = weakref.ref(tensor)
        with no_dispatch():
            return func(tensor, *rest)

    def _takes_memory(self, tensor: Tensor, storage: Any, *lies: Any) -> Tensor:
        """An empty tensor shows memory that was made outside from now on."""
        if type(tensor) is not Managed:
            return _TAKES_MEMORY(tensor, storage, *lies)
        with no_dispatch():
            outside = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            view = self.adopt(_TAKES_MEMORY(outside, storage, *lies))
            Tensor.data.__set__(tensor, view)
        tensor._handle = view._handle
        self.wrappers[tensor._handle.id] = weakref.ref(tensor)
        return tensor

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
            and self.settle_what_is_held(0.5)
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

    def settle_what_is_held(self, share: float) -> bool:
        """Keeps the values that the program holds, so that their past is not kept, if all of them take no
        more than this share of the budget, and there is room to compute what has been dropped of them; says
        whether. What autograd alone holds may be evicted as ever.
        """
        leaves = (reference() for reference in self.leaves.values())
        gradients = (leaf.grad for leaf in leaves if leaf is not None)
        ids = [one._handle.id for one in gradients if type(one) is Managed and one._runtime is self]
        ids += held(self.wrappers.values())
        try:
            return self.core.settle_all(ids, share)
        except OverBudget:
            return False
