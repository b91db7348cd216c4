"""How an operator call is computed again: the operator, its arguments without their tensors, and the random
state.

A replay is called with the values of the tensors that the call reads and returns those of all its outputs. It
runs the same kernel on operands of the same shapes, strides and offsets, so it gives the same bits. In-place
operators are replayed as pure ones: on a copy of the storage that they wrote.

Not here: when a call is replayed (the Rust core), how it ran for the first time (``online_dispatch``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "Overwrite",
    "Replay",
    "Restride",
    "Slot",
    "fill",
    "fill_kwargs",
    "flat_storage",
    "generator_of",
    "lies_like",
    "map_tensors",
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


def generator_of(kwargs: dict[str, Any], device: torch.device) -> torch.Generator:
    """The generator that a random operator draws from."""
    given = kwargs.get("generator")
    if given is not None:
        return given
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


def lies_like(tensor: Tensor) -> Tensor:
    """A tensor of the same shape, strides and type without data."""
    with _disable_current_modes():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def reshaped(storage: Any, like: Tensor) -> Tensor:
    """A tensor in ``storage`` that lies there as ``like`` does in its own."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(storage, like.storage_offset(), like.size(), like.stride())


class Replay:
    """An operator call whose outputs are new tensors or views."""

    __slots__ = (
        "_separate",
        "args",
        "func",
        "generator",
        "grad",
        "kwargs",
        "ordinary",
        "outside",
        "scratch",
        "state",
        "versions",
    )

    def __init__(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """A call of ``func``; tensors in the arguments are slots."""
        self.func = func
        self.args = args
        self.kwargs = kwargs
        # Some kernels make their workspace only where gradients are wanted, and the backward pass is no such
        # place.
        self.grad = torch.is_grad_enabled()
        self.generator: torch.Generator | None = None
        self.state: Tensor | None = None
        # Tensors made outside, by place: what is read is the tensor itself, as long as nobody writes to it.
        self.outside: dict[int, Tensor] = {}
        self.versions: dict[int, int] = {}
        # Copies of what the operator wrote to and did not make, by place: a replay writes to a copy of the
        # copy. They count as the last arguments of the call, which have no values.
        self.scratch: dict[int, Tensor] = {}
        # Outputs, by place, that are given out as they are and never made again.
        self.ordinary: tuple[int, ...] = ()
        self._separate: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The operator, for messages and logs."""
        return str(self.func)

    def keep_outside(self, place: int, tensor: Tensor) -> None:
        """The call reads a tensor that is not managed."""
        self.outside[place] = tensor
        self.versions[place] = 0 if tensor.is_inference() else tensor._version

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
                tensor = self.outside[place]
                if value is not None:
                    # It was overwritten since, and the core keeps a copy of its storage.
                    value = reshaped(value.untyped_storage(), tensor)
                elif not tensor.is_inference() and tensor._version != self.versions[place]:
                    raise RuntimeError(
                        f"{self.func}: an argument of shape {tuple(tensor.shape)} was modified in place "
                        "outside of the memory budget after it was used, so what came of it cannot be "
                        "computed again; modify it inside, or drop what was computed from it first"
                    )
                else:
                    value = tensor
            operands.append(value)
        return operands

    def run(self, operands: Sequence[Any]) -> Any:
        """Runs the operator as it is."""
        return self.func(*fill(self.args, operands), **fill_kwargs(self.kwargs, operands))

    def again(self, operands: Sequence[Any]) -> Any:
        """Runs the operator with the random state of its first run, and puts the present one back."""
        # Some operators (``detach`` in a backward pass) are dispatched above autograd, which would record
        # what is computed again for them, and keep that.
        with torch._C._AutoDispatchBelowAutograd(), torch.set_grad_enabled(self.grad):
            if self.generator is None:
                return self.run(operands)
            present = self.generator.get_state()
            self.generator.set_state(self.state)
            try:
                return self.run(operands)
            finally:
                self.generator.set_state(present)

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

    __slots__ = ("dtype", "place")

    def __init__(self, like: Tensor) -> None:
        """A view that lies as ``like`` does."""
        self.dtype = like.dtype
        self.place = (like.storage_offset(), like.size(), like.stride())

    def __str__(self) -> str:
        """The operator, for messages and logs."""
        return "view"

    def __call__(self, values: Sequence[Any]) -> list[Tensor]:
        """The view, from the bytes of its storage."""
        (base,) = values
        return [
            torch.empty(0, dtype=self.dtype, device=base.device).set_(base.untyped_storage(), *self.place)
        ]


def flat_storage(tensor: Tensor) -> Tensor:
    """The bytes of a tensor's whole storage."""
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


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
