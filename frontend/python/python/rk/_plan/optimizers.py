"""What an optimizer takes, before it has run: its state, and what a step of it needs meanwhile.

The optimizer is copied with tensors that have sizes and no memory, and the copy takes two steps while every
storage that lives is counted. So it holds for every optimizer whose step is written in PyTorch's operators,
and costs no memory. Numbers that a step reads back from tensors (``.item()``) are made up: the state and the
temporaries of an optimizer depend on sizes, not on values.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from rk._plan import device as devices
from rk.errors import CompileError

_ITEM = torch.ops.aten._local_scalar_dense.default
_EARLY, _LATE = 0.5, 10000.5
"""What a step reads back in the first and in the second step: bias corrections differ between both."""


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Bytes that an optimizer takes beside parameters and gradients."""

    state: int
    """What it keeps between steps, once it has taken one."""
    held: int
    """What of that exists already."""
    temporary: int
    """The most that a step needs besides, until it ends."""


def footprint(optimizer: torch.optim.Optimizer, device: torch.device | None = None) -> Footprint:
    """What the state and a step of an optimizer take on ``device``, its parameters' own if None.

    Nothing of the optimizer or its parameters changes. Raises CompileError for an optimizer whose step cannot
    be run on tensors without memory (one that needs a closure, or a kernel that PyTorch does not know).
    """
    trained = [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad]
    where = device or devices.of(trained)
    before = held(optimizer, where)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        # It may be asked for while a graph is traced.
        with _disable_current_modes():
            twin, given = _copied(optimizer, mode, where)
            living = _Living(where, given)
            with _not_compiling(), mode, living, torch.no_grad():
                twin.step()
                living.number = _LATE
                after_first = living.now
                twin.step()
    except Exception as error:  # noqa: BLE001 - an optimizer may be anybody's
        raise CompileError(
            f"what {type(optimizer).__name__} takes cannot be foreseen: {type(error).__name__}: {error}. It "
            "is seen when the optimizer has taken a step"
        ) from error
    state = before + max(living.now, after_first)
    return Footprint(state=state, held=before, temporary=max(living.peak + before - state, 0))


@contextlib.contextmanager
def _not_compiling() -> Iterator[None]:
    """While a graph is compiled, optimizers run as they would inside of it: with numbers as tensors."""
    outside = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = False
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = outside


def held(optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Bytes of the state that an optimizer has now."""
    return sum(_rounded(one, device) for one in tensors(optimizer.state.values()))


def _copied(
    optimizer: torch.optim.Optimizer, mode: FakeTensorMode, where: torch.device
) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
    """The optimizer on tensors without memory, and these: parameters, gradients, the state that it has."""
    twins: dict[int, Any] = {}
    given: list[torch.Tensor] = []

    def without_memory(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        # The state of a sharded parameter is sharded as well.
        mine = devices.local(tensor)
        with mode:
            return torch.empty_strided(mine.shape, mine.stride(), dtype=mine.dtype, device=device)

    for group in optimizer.param_groups:
        for one in group["params"]:
            twin = nn.Parameter(without_memory(one, where), requires_grad=one.requires_grad)
            if one.requires_grad:
                twin.grad = without_memory(one, where)
                given.append(twin.grad)
            twins[id(one)] = twin
            given.append(twin)
    for parameter, state in optimizer.state.items():
        for one in tensors([state]):
            # Counters of steps may stay in the host's memory.
            beside = isinstance(parameter, torch.Tensor) and one.device == parameter.device
            twins[id(one)] = without_memory(one, where if beside else one.device)
            given.append(twins[id(one)])
    twin = copy.deepcopy(optimizer, twins)
    if where.type == "cuda":
        for group in twin.param_groups:
            # PyTorch decides by the class of a tensor, and those without memory have their own.
            if group.get("foreach", False) is None and not group.get("fused"):
                group["foreach"] = True
    return twin, given


class _Living(TorchDispatchMode):
    """Counts the bytes of all storages that operators make, for as long as they live."""

    def __init__(self, device: torch.device, given: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.device = device
        self.number = _EARLY
        self.now = self.peak = 0
        self._known = {one.untyped_storage()._cdata for one in given}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ITEM:
            return args[0].dtype.is_floating_point and self.number or int(self.number) + 1
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self._made(one)
        return result

    def _made(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        name = storage._cdata
        if name in self._known or tensor.device.type != self.device.type:
            return
        size = _rounded(tensor, self.device)
        self._known.add(name)
        self.now += size
        self.peak = max(self.peak, self.now)

        def gone() -> None:
            self._known.discard(name)
            self.now -= size

        weakref.finalize(storage, gone).atexit = False


def tensors(states: Iterable[Any]) -> list[torch.Tensor]:
    """All tensors in the state of an optimizer."""
    return [one for one in tree_leaves(list(states)) if isinstance(one, torch.Tensor)]


def _rounded(tensor: torch.Tensor, device: torch.device) -> int:
    """Bytes of a tensor's storage as the device's allocator hands them out."""
    unit = devices.alignment(device)
    return -(-devices.local(tensor).untyped_storage().nbytes() // unit) * unit
