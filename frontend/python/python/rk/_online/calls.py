"""How one call runs under a memory budget: its operands get their values, it runs, its results are given out.

What is given out is a :class:`Managed` tensor, which has shape, strides and a handle of the core, and no
data. Before a call runs, the core gives its operands their values, evicting and computing again as it sees
fit; all that happens here is what it says.

Not here: decisions (``rk._rk``), calls that write (``writes``), sums of gradients (``sums``), replays
(``replay``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from rk._graph import switches
from rk._graph.repetition import Manner
from rk._online.managed import GIVEN_AWAY, Managed
from rk._online.operators import Operator
from rk._online.outside import Outside
from rk._online.replay import Overwrite, Replay, map_tensors, read_as
from rk._online.segments import Spellings
from rk._online.sizes import foreseen, measured
from rk._online.unmanaged import Unmanaged, apart, kind_of
from rk._online.view_gradients import WrittenViews
from rk._rk import OnlineRuntime, OverBudget

__all__ = ["Calls", "in_backward"]

_CPU = torch.device("cpu")


def in_backward() -> bool:
    """Whether autograd is running backward, and not for a graph of its own (higher-order gradients)."""
    return torch._C._current_graph_task_id() >= 0 and not torch.is_grad_enabled()


class Calls:
    """The core of a budget, what it knows of tensors, and how a call runs."""

    def __init__(self, core: OnlineRuntime, *, total: bool, segments: bool) -> None:
        """``total``: tensors made outside count. ``segments``: runs of calls that recur are looked for."""
        self.core = core
        self.spellings = Spellings() if segments else None
        self.total = total
        self.peeking = False
        self.adopting = False
        self.unmanaged = Unmanaged(core)
        self.outside = Outside(core)
        # Managed tensors by the core's ids, which are given again: an entry whose tensor is gone is stale.
        self.wrappers: dict[int, weakref.ref[Managed]] = {}
        # Weights that were read, whose gradients become ordinary at the end.
        self.leaves: dict[int, weakref.ref[Tensor]] = {}
        self.written_views = WrittenViews()

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
        if known.pointwise:
            replay.setting = switches.now_for_pointwise()
        else:
            replay.setting = switches.now(next((t.device for t in operands if t.device.type != "cpu"), _CPU))
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
            managed = [o for o, t in zip(operands, tensors, strict=True) if type(t) is Managed]
            for output, kind in zip(outputs, kinds, strict=True):
                if not host and id(output) not in given:
                    given[id(output)] = own = apart(output, managed) if kind else output
                    self.unmanaged.add(own, kind or "ordinary", known.func, operands)
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
        torch._C._set_storage_data_ptr_access_error_msg(wrapper.untyped_storage()._cdata, GIVEN_AWAY)
        wrapper._runtime = self
        wrapper._handle = handle
        self.wrappers[handle.id] = weakref.ref(wrapper)
        return wrapper
