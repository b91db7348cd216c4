"""What a stage of a chain depends on besides its input, so that a second run repeats the first.

Generators, the mode of autocast, PyTorch's switches, the buffers that a run updates, and what the caller may
change between forward and backward unnoticed by autograd (law S9): a second run finds all of them as the
first one did, and leaves them as it found them. What backward reads itself must not change: that is an error,
as in eager PyTorch.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from rk._graph import loans, switches


def detached(value: Any, requires_grad: bool) -> Any:
    """The same tensors without history; those that can have a gradient ask for one, if wanted."""

    def cut(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        leaf = one.detach()
        can = leaf.dtype.is_floating_point or leaf.dtype.is_complex
        return leaf.requires_grad_() if requires_grad and can else leaf

    return pytree.tree_map(cut, value)


class StageState:
    """The surroundings of a first run, kept for the next ones."""

    def __init__(
        self,
        module: nn.Module,
        device: torch.device,
        random: bool,
        checked: Container[str] = (),
        given: Any = None,
    ) -> None:
        """Notes what is there now; ``random`` says whether generators count, ``checked`` what of the module
        and of ``given``, an input of the caller's, the stage's backward reads.
        """
        self._device = device
        self._setting = switches.now(device)
        self._generators = _generators(device) if random else None
        self._buffers = [(one, one.detach().clone()) for one in module.buffers()]
        tensors = named(module, given)
        self._checked = [(name, one, loans.version(one)) for name, one in tensors.items() if name in checked]
        lent = [one for name, one in tensors.items() if name not in checked]
        known = {id(one): old for one, old in self._buffers}
        self._lent = [(one, known.get(id(one), one.detach().clone())) for one in lent]
        self._attributes = [(one, _shallow(vars(one))) for one in module.modules()]
        self._host = _HostGenerators(self._attributes) if random else None
        kinds = {"cpu", device.type}
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds
        ]
        self._cache = torch.is_autocast_cache_enabled()

    def first_run_done(self) -> None:
        """Tells the buffers that the first run has updated from those that it left alone."""
        self._buffers = [(one, old) for one, old in self._buffers if not torch.equal(one, old)]
        updated = {id(one) for one, _ in self._buffers}
        self._lent = [(one, old) for one, old in self._lent if id(one) not in updated]
        checked = [(name, one) for name, one, _ in self._checked if id(one) not in updated]
        self._checked = [(name, one, loans.version(one)) for name, one in checked]
        if self._host is not None and not self._host.moved():
            self._host = None

    @property
    def bytes(self) -> int:
        """What is kept."""
        kept = [old for _, old in (*self._buffers, *self._lent)] + (self._generators or [])
        return sum(one.nbytes for one in kept)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Everything as before the first run, while this lasts."""
        for name, one, version in self._checked:
            if loans.version(one) != version:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: {name}, which a stage reads again in its second run"
                )
        buffers = [one for one, _ in self._buffers]
        now = [one.detach().clone() for one in buffers]
        generators = _generators(self._device) if self._generators is not None else None
        with contextlib.ExitStack() as stack, torch.no_grad():
            stack.enter_context(_installed(self._attributes))
            for kind, enabled, dtype in self._autocast:
                context = torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cache)
                stack.enter_context(context)
            stack.enter_context(switches.kept(self._setting))
            _put(buffers, [old for _, old in self._buffers])
            if self._generators is not None:
                _set_generators(self._device, self._generators)
            if self._host is not None:
                stack.enter_context(self._host.restored())
            now_lent = [one.data for one, _ in self._lent]
            for one, old in self._lent:
                one.data = old
            try:
                yield
            finally:
                for (one, _), other in zip(self._lent, now_lent, strict=True):
                    one.data = other
                _put(buffers, now)
                if generators is not None:
                    _set_generators(self._device, generators)


def named(module: nn.Module, given: Any = None) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module by name, and the tensors of what is given to it."""
    leaves = enumerate(pytree.tree_leaves(given))
    inputs = {f"input {place}": one for place, one in leaves if isinstance(one, torch.Tensor)}
    return {**dict(module.named_parameters()), **dict(module.named_buffers()), **inputs}


def storages_of(value: Any) -> set[int]:
    """The storages of a value."""
    leaves = pytree.tree_leaves(value)
    return {one.untyped_storage()._cdata for one in leaves if isinstance(one, torch.Tensor)}


def read_by_backward(result: Any) -> set[int]:
    """The storages that the graph behind a result has saved."""
    leaves = pytree.tree_leaves(result)
    functions = [one.grad_fn for one in leaves if isinstance(one, torch.Tensor) and one.grad_fn is not None]
    seen, storages = set(functions), set[int]()
    while functions:
        function = functions.pop()
        saved = list(getattr(function, "saved_tensors", ()))
        saved += [getattr(function, name) for name in dir(function) if name.startswith("_saved_")]
        storages |= storages_of(saved)
        before = {source for source, _ in function.next_functions if source is not None} - seen
        seen |= before
        functions += before
    return storages


@contextlib.contextmanager
def kept_still(modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Buffers, gradients and generators are afterwards what they were before."""
    buffers = [one for module in modules for one in module.buffers()]
    parameters = [one for module in modules for one in module.parameters()]
    values, gradients = [one.detach().clone() for one in buffers], [one.grad for one in parameters]
    generators = _generators(device)
    for one in parameters:
        one.grad = torch.zeros_like(one) if one.requires_grad else None
    try:
        yield
    finally:
        with torch.no_grad():
            _put(buffers, values)
        for one, gradient in zip(parameters, gradients, strict=True):
            one.grad = gradient
        _set_generators(device, generators)


_CONTAINERS = frozenset((dict, OrderedDict, list, set))


def _shallow(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a module, with containers of their own: parameters and buffers by name, hooks,
    whether it trains, what it counts and collects.
    """
    # Most of PyTorch's own are without hooks, and stay so.
    return {
        name: one.copy() if type(one) in _CONTAINERS and (one or name[0] != "_") else one
        for name, one in attributes.items()
    }


@contextlib.contextmanager
def _installed(attributes: Sequence[tuple[nn.Module, dict[str, Any]]]) -> Iterator[None]:
    """Modules have these attributes while this lasts; what is assigned meanwhile is forgotten."""
    now = [dict(vars(module)) for module, _ in attributes]
    for module, was in attributes:
        _assign(module, _shallow(was))
    try:
        yield
    finally:
        for (module, _), one in zip(attributes, now, strict=True):
            _assign(module, one)


def _assign(module: nn.Module, attributes: dict[str, Any]) -> None:
    own = vars(module)
    own.clear()
    own.update(attributes)


class _HostGenerators:
    """Python's generator, NumPy's, and those that are attributes of modules, with their states."""

    def __init__(self, attributes: Sequence[tuple[nn.Module, dict[str, Any]]]) -> None:
        """As they are now."""
        values = (one for _, own in attributes for one in own.values())
        self._own = [one for one in values if isinstance(one, torch.Generator)]
        self._states = self._now()

    def _now(self) -> tuple[Any, Any, list[torch.Tensor]]:
        numpy = sys.modules.get("numpy")
        states = [one.get_state() for one in self._own]
        return random.getstate(), None if numpy is None else numpy.random.get_state(), states

    def _put(self, states: tuple[Any, Any, list[torch.Tensor]]) -> None:
        python, numpy, own = states
        random.setstate(python)
        if numpy is not None:
            sys.modules["numpy"].random.set_state(numpy)
        for generator, state in zip(self._own, own, strict=True):
            generator.set_state(state)

    def moved(self) -> bool:
        """Whether something has been drawn since."""
        python, numpy, own = self._now()
        was = self._states
        same = python == was[0] and (numpy is None) == (was[1] is None) and all(map(torch.equal, own, was[2]))
        return not same or numpy is not None and not all(map(_equal, numpy, was[1]))

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """They are as they were while this lasts."""
        now = self._now()
        self._put(self._states)
        try:
            yield
        finally:
            self._put(now)


def _equal(one: Any, other: Any) -> bool:
    same = one == other
    return bool(same.all()) if hasattr(same, "all") else same


def _put(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    for buffer, value in zip(into, values, strict=True):
        # Through .data: a graph that saved the buffer shall not take this for a change.
        buffer.data.copy_(value)


def _generators(device: torch.device) -> list[torch.Tensor]:
    states = [torch.random.get_rng_state()]
    return (
        states if device.type == "cpu" else [*states, torch.get_device_module(device).get_rng_state(device)]
    )


def _set_generators(device: torch.device, states: Sequence[torch.Tensor]) -> None:
    torch.random.set_rng_state(states[0])
    for state in states[1:]:
        torch.get_device_module(device).set_rng_state(state, device)
