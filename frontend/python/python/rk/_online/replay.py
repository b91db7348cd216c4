"""How an operator call is computed again: the operator, its arguments without their tensors, and the random
state.

A replay is called with the values of the tensors that the call reads and returns those of all its outputs. It
runs the same kernel on operands of the same shapes, strides and offsets, so it gives the same bits. In-place
operators are replayed as pure ones: on a copy of the storage that they wrote.

Not here: when a call is replayed (the Rust core), how it ran for the first time (``dispatch``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from rk._graph import loans, switches
from rk._graph.repetition import generators
from rk._online.outside import Outside, flat_storage, modified

__all__ = [
    "Overwrite",
    "Replay",
    "Restride",
    "Slot",
    "fill",
    "fill_kwargs",
    "lies_like",
    "map_tensors",
    "read_as",
    "reshaped",
    "scan",
]


class Slot:
    """Stands for the tensor at a position of a call's list of tensors."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        """For the tensor at ``place``."""
        self.place = place


def scan(items: Sequence[Any], tensors: list[Tensor]) -> list[Any]:
    """The arguments with their tensors replaced by slots; the tensors are appended to the list."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, Tensor):
            found.append(Slot(len(tensors)))
            tensors.append(item)
        elif type(item) in (list, tuple):
            found.append(scan(item, tensors))
        else:
            found.append(item)
    return found


def fill(items: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The inverse of :func:`scan`."""
    return [
        values[item.place] if type(item) is Slot else fill(item, values) if type(item) is list else item
        for item in items
    ]


def lies_like(tensor: Tensor) -> Tensor:
    """A tensor of the same shape, strides and type without data."""
    with _disable_current_modes():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def reshaped(storage: Any, like: Tensor) -> Tensor:
    """A tensor in ``storage`` that lies there as ``like`` does in its own."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return read_as(empty.set_(storage, like.storage_offset(), like.size(), like.stride()), like)


def read_as(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor, conjugated or negated when it is read, if ``like`` is."""
    if like.is_conj():
        torch._C._set_conj(tensor, True)
    if like.is_neg():
        torch._C._set_neg(tensor, True)
    return tensor


class Replay:
    """An operator call whose outputs are new tensors or views."""

    __slots__ = (
        "_separate",
        "args",
        "func",
        "grad",
        "kwargs",
        "once",
        "ordinary",
        "outside",
        "scratch",
        "setting",
        "since",
        "states",
        "watch",
    )

    def __init__(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """A call of ``func``; tensors in the arguments are slots."""
        self.func = func
        self.args = args
        self.kwargs = kwargs
        # Some kernels make their workspace only where gradients are wanted, and the backward pass is no such
        # place.
        self.grad = torch.is_grad_enabled()
        # PyTorch's switches in its first run.
        self.setting: switches.Setting = {}
        # The generators that it drew from, each with its state before.
        self.states: list[tuple[torch.Generator, Tensor]] = []
        # Whether it must not run again: what it made stays.
        self.once = False
        # Tensors made outside, by place, with their storages and versions: what is read is the tensor itself,
        # as long as nobody writes to it.
        self.outside: dict[int, tuple[Tensor, Any, int]] = {}
        self.watch: Outside | None = None
        # How often the context had been left when it read them.
        self.since = 0
        # Copies of what the operator wrote to and did not make, by place: a replay writes to a copy of the
        # copy. They count as the last arguments of the call, which have no values.
        self.scratch: dict[int, Tensor] = {}
        # Outputs, by place, that are given out as they are and never made again.
        self.ordinary: tuple[int, ...] = ()
        self._separate: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The operator, for messages and logs."""
        if not self.once:
            return str(self.func)
        return f"{self.func} (which runs once; rk.allow_recompute says that it may run again)"

    def keep_outside(self, place: int, tensor: Tensor, storage: Any, watch: Outside) -> None:
        """The call reads a tensor that is not managed; ``storage`` is None if it has no single one."""
        version = loans.version(tensor)
        self.outside[place] = tensor, storage, version
        self.watch, self.since = watch, watch.left

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """The values of all tensors of the call, from those that the core holds."""
        if not self.outside and not self.scratch:
            return list(values)
        managed = iter(values)
        operands: list[Any] = []
        for place in range(len(values)):
            if place in self.scratch:
                operands.append(self.scratch[place].clone())
                continue
            value = next(managed)
            if place in self.outside:
                value = self._from_outside(value, *self.outside[place])
            operands.append(value)
        return operands

    def _from_outside(self, copy: Tensor | None, tensor: Tensor, storage: Any, version: int) -> Tensor:
        """What a tensor made outside was when the call read it; ``copy`` is what the core keeps if it was
        overwritten since.
        """
        moved = storage is not None and tensor.untyped_storage()._cdata != storage._cdata
        if moved:
            raise modified(self.func, tensor)
        if copy is not None:
            return reshaped(copy.untyped_storage(), tensor)
        if loans.version(tensor) != version:
            raise modified(self.func, tensor)
        if self.watch.digests and storage is not None:
            self.watch.check(self.func, tensor, self.since)
        return tensor

    def run(self, operands: Sequence[Any]) -> Any:
        """Runs the operator as it is."""
        return self.func(*fill(self.args, operands), **fill_kwargs(self.kwargs, operands))

    def run_watched(self, operands: Sequence[Any]) -> Any:
        """Runs the operator for the first time, and notes what it draws from."""
        given = [one for one in flat([*self.args, *self.kwargs.values()]) if isinstance(one, torch.Generator)]
        before = [(one, one.get_state()) for one in [*given, *generators()]]
        result = self.run(operands)
        self.states = [(one, state) for one, state in before if not torch.equal(state, one.get_state())]
        return result

    def again(self, operands: Sequence[Any]) -> Any:
        """Runs the operator with the random state and the switches of its first run, and puts the present
        ones back.
        """
        # Some operators (``detach`` in a backward pass) are dispatched above autograd, which would record
        # what is computed again for them, and keep that.
        below = torch._C._AutoDispatchBelowAutograd()
        with below, torch.set_grad_enabled(self.grad), switches.kept(self.setting):
            if not self.states:
                return self.run(operands)
            present = [(generator, generator.get_state()) for generator, _ in self.states]
            for generator, state in self.states:
                generator.set_state(state)
            try:
                return self.run(operands)
            finally:
                for generator, state in present:
                    generator.set_state(state)

    def outputs(self, result: Any) -> list[Tensor]:
        """The tensors of a result that are managed, in order."""
        tensors = (
            [result] if isinstance(result, Tensor) else [r for r in flat(result) if isinstance(r, Tensor)]
        )
        if self.ordinary:
            tensors = [t for i, t in enumerate(tensors) if i not in self.ordinary]
        return tensors

    def separated(self, outputs: list[Tensor]) -> list[Tensor]:
        """The outputs, each in a buffer of its own or in an operand's."""
        if not self._separate:
            return outputs
        return [t.clone() if i in self._separate else t for i, t in enumerate(outputs)]

    def separate(self, places: Sequence[int]) -> None:
        """Outputs that share a new buffer with an earlier output get buffers of their own."""
        self._separate = tuple(places)

    def __call__(self, values: Sequence[Any]) -> list[Tensor]:
        """The values of the outputs, from those of what the call reads."""
        return self.separated(self.outputs(self.again(self.operands(values))))


class Overwrite(Replay):
    """An in-place operator call: its first outputs are the storages that it wrote, whole, as new ones."""

    __slots__ = ("whole", "written")

    def __init__(self, func: Any, args: list[Any], kwargs: dict[str, Any], written: list[int]) -> None:
        """A call that writes to the tensors at the places ``written``."""
        super().__init__(func, args, kwargs)
        self.written = written
        # Whether the output stands for the whole storage, of which the written tensor is one view among
        # others.
        self.whole = [False] * len(written)

    def __call__(self, values: Sequence[Any]) -> list[Tensor]:
        """The values of the new storages, then of the other outputs."""
        operands = self.operands(values)
        for place in self.written:
            old = operands[place]
            operands[place] = reshaped(old.untyped_storage().clone(), old)
        result = self.again(operands)
        made = [
            flat_storage(operands[p]) if w else operands[p]
            for p, w in zip(self.written, self.whole, strict=True)
        ]
        ours = {id(operands[place]) for place in range(len(operands))}
        return made + self.separated([t for t in self.outputs(result) if id(t) not in ours])


class Restride:
    """A view that lies in a storage as another tensor once did in the storage that this one replaced."""

    __slots__ = ("dtype", "place", "reads")

    def __init__(self, like: Tensor) -> None:
        """A view that lies as ``like`` does."""
        self.dtype = like.dtype
        self.reads = like.is_conj(), like.is_neg()
        self.place = (like.storage_offset(), like.size(), like.stride())

    def __str__(self) -> str:
        """The operator, for messages and logs."""
        return "view"

    def __call__(self, values: Sequence[Any]) -> list[Tensor]:
        """The view, from the bytes of its storage."""
        (base,) = values
        empty = torch.empty(0, dtype=self.dtype, device=base.device)
        view = empty.set_(base.untyped_storage(), *self.place)
        for set_bit, on in zip((torch._C._set_conj, torch._C._set_neg), self.reads, strict=True):
            if on:
                set_bit(view, True)
        return [view]


def fill_kwargs(kwargs: dict[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Keyword arguments with their tensors in place."""
    if not kwargs:
        return kwargs
    return dict(zip(kwargs, fill(list(kwargs.values()), values), strict=True))


def flat(result: Any) -> list[Any]:
    """The members of a result and of the lists in it."""
    if type(result) in (list, tuple):
        return [leaf for item in result for leaf in flat(item)]
    return [result]


def map_tensors(result: Any, change: Callable[[Tensor], Any]) -> Any:
    """The result with its tensors changed."""
    if isinstance(result, Tensor):
        return change(result)
    if type(result) in (list, tuple):
        return type(result)(map_tensors(item, change) for item in result)
    return result
