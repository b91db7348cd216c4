"""What ships with PyTorch to test operators with, as items of one kind.

An item is an operator (or module) with a dtype; its samples are *subjects*: something to call, and what to
call it with. The databases need the package ``expecttest``, which PyTorch does not require.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "c64": torch.complex64,
    "i64": torch.int64,
    "b1": torch.bool,
}
FAMILIES = ("op", "module", "hop", "custom", "function")
MOST_ELEMENTS = 20_000
"""Larger samples are passed over: they show nothing that smaller ones do not."""
RANDOM = re.compile(
    r"exponential|cauchy|geometric|log_normal|normal|uniform|rand|multinomial|bernoulli|"
    r"nn\.functional\..*(dropout|rrelu)"
)
"""Operators that draw random numbers."""
LARGER = 512
"""By how much samples of these are made larger: a second run is worth the generator's state of 5 KB then."""
LOOKED_AT = 40
"""How many samples of an operator are looked at; those that are taken are spread among them."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One operator in one dtype."""

    family: str
    name: str
    variant: str
    """``function``, or ``inplace``."""
    dtype: str
    differentiable: bool

    @property
    def key(self) -> str:
        """What the item is known by in results."""
        return f"{self.family}:{self.name}:{self.variant}:{self.dtype}"


@dataclasses.dataclass
class Subject:
    """Something to call, and the arguments to call it with."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: nn.Module | None = None
    """What holds parameters and buffers, if anything does."""

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of the arguments, which keep strides, shared storages and requests for gradients."""
        memo: dict[int, Any] = {}
        for one in tensors_in((self.args, self.kwargs)):
            if id(one) not in memo:
                memo[id(one)] = copy.deepcopy(one.detach(), memo).requires_grad_(one.requires_grad)
        return copy.deepcopy((self.args, self.kwargs), memo)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_in(one)]
    return []


@functools.cache
def _database(family: str) -> dict[str, Any]:
    if family == "op":
        from torch.testing._internal.common_methods_invocations import op_db as found
    elif family == "module":
        from torch.testing._internal.common_modules import module_db as found
    elif family == "hop":
        from torch.testing._internal.hop_db import hop_db as found
    elif family == "custom":
        from torch.testing._internal.custom_op_db import custom_op_db as found
    else:
        from torch.testing._internal.autograd_function_db import autograd_function_db as found
    _draw_as_models_do()
    # They forbid the whole process to set the switches of PyTorch's backends.
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    return {_name(one): one for one in found}


def _draw_as_models_do() -> None:
    """Random operators are seeded by the databases at every call; here they draw from the generator as it is,
    which is what a second run has to get right.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = _unseeded


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def _name(info: Any) -> str:
    full = getattr(info, "full_name", None) or getattr(info, "formatted_name", None)
    return full or info.name


def items(families: tuple[str, ...], dtypes: tuple[str, ...]) -> list[Item]:
    """All items of these families, in the databases' order."""
    found = []
    for family in families:
        for name, info in _database(family).items():
            for dtype in dtypes:
                found.extend(_items_of(family, name, info, dtype))
    return found


def _items_of(family: str, name: str, info: Any, dtype: str) -> Iterator[Item]:
    wanted = DTYPES[dtype]
    if family == "module":
        if wanted in info.dtypes:
            yield Item(family, name, "function", dtype, True)
        return
    if wanted not in info.supported_dtypes("cpu"):
        return
    differentiable = info.supports_autograd and wanted in info.supported_backward_dtypes("cpu")
    yield Item(family, name, "function", dtype, differentiable)
    if family == "op" and info.inplace_variant is not None:
        yield Item(family, name, "inplace", dtype, differentiable and info.supports_inplace_autograd)


def subjects(item: Item, most: int) -> Iterator[tuple[int, Subject]]:
    """At most ``most`` samples of an item, each with its number."""
    info, dtype = _database(item.family)[item.name], DTYPES[item.dtype]
    trains = dtype.is_floating_point or dtype.is_complex
    if item.family == "module":
        made = info.module_inputs_func(info, "cpu", dtype, requires_grad=trains, training=True)
        samples = (functools.partial(_of_module, info, one, dtype) for one in made)
    else:
        made = info.sample_inputs("cpu", dtype, requires_grad=item.differentiable)
        if item.variant == "inplace":
            made = (one for one in made if not one.broadcasts_input)
        samples = (functools.partial(_of_operator, info, item, one) for one in made)
    small = [(n, make()) for n, make in enumerate(itertools.islice(samples, LOOKED_AT))]
    small = [(n, one) for n, one in small if one is not None and _size(one) <= MOST_ELEMENTS]
    step = max(len(small) / max(most, 1), 1)
    for place in range(min(most, len(small))):
        yield small[int((place + 0.5) * step)]


def _size(subject: Subject) -> int:
    return sum(one.numel() for one in tensors_in((subject.args, subject.kwargs)))


def _of_operator(info: Any, item: Item, sample: Any) -> Subject:
    call = info.inplace_variant if item.variant == "inplace" else info.op
    subject = Subject(call, (sample.input, *sample.args), dict(sample.kwargs))
    return _larger(subject) if RANDOM.match(item.name) else subject


def _larger(subject: Subject) -> Subject:
    """The same sample with more rows, if the operator takes that."""
    larger = Subject(_of_a_copy(subject.call), *_repeated((subject.args, subject.kwargs)))
    args, kwargs = larger.fresh()
    try:
        with torch.no_grad():
            larger.call(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return subject
    return larger


def _of_a_copy(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, which may fill its first argument with random numbers, and leaves the caller's alone."""

    def of_a_copy(first: Any, *args: Any, **kwargs: Any) -> Any:
        return call(first.clone() if isinstance(first, torch.Tensor) else first, *args, **kwargs)

    return of_a_copy


def _repeated(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        repeats = [LARGER, *[1] * (value.dim() - 1)]
        more = value.detach().repeat(repeats) if value.dim() and value.numel() else value.detach()
        return more.requires_grad_(value.requires_grad)
    if isinstance(value, torch.Size) or type(value) in (list, tuple):
        if value and all(type(one) is int for one in value):
            return type(value)([LARGER * value[0], *value[1:]])
        return type(value)(_repeated(one) for one in value)
    if isinstance(value, dict):
        return {key: _repeated(one) for key, one in value.items()}
    return value


def _of_module(info: Any, made: Any, dtype: torch.dtype) -> Subject | None:
    if made.forward_input is None:
        return None
    given = made.constructor_input
    module = info.module_cls(*given.args, **given.kwargs).to("cpu").to(dtype).train()
    return Subject(module, tuple(made.forward_input.args), dict(made.forward_input.kwargs), module)
