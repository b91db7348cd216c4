"""Scope ``device``: the budget is for all that is allocated on a device, from the first step to the last.

What stands there (parameters, buffers, gradients, the state of optimizers) is read from the allocator with
everything else. What will stand there and does not yet, the state that an optimizer makes in its first
step, is foreseen, and is no room for activations. The step of an optimizer is checked before it runs.
"""

from __future__ import annotations

import functools
import math
import statistics
import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from rk import _torch
from rk._plan import costs
from rk._plan import device as devices
from rk._plan.options import Options
from rk._plan.planning import readable
from rk._run import group, optimizers, sequence
from rk._run.metered import MARGIN
from rk._run.parameters import trained
from rk._run.steps import Known, Step
from rk._run.whole import WholeMeter
from rk.errors import TorchError

RESERVE = 16
"""``auto`` leaves this part of the device's memory free: allocators keep more than they hand out."""
BESIDE = 40
"""What a step may have beside calls that are not known yet, as a part of all."""
AUTO_STEPS = 128
"""Sizes between powers of two of a budget ``auto`` whose capacity is not stated, but found."""


_COUNTED: weakref.WeakKeyDictionary[Any, tuple[Any, WholeMeter]] = weakref.WeakKeyDictionary()
"""For functions that have been compiled for the CPU and have no group yet: what has counted since then."""


def waits(function: Any, options: Options) -> None:
    """A function has been compiled; what is allocated from here on counts: buckets of DDP, what a stage of a
    pipeline receives.
    """
    key, cpu = group.key_of(options), torch.device("cpu")
    begun = any(one == key for one, _ in _COUNTED.values()) or (str(cpu), *key) in group.GROUPS
    if options.scope == "device" and not begun and not torch.cuda.is_initialized():
        _COUNTED[function] = key, WholeMeter(cpu)


def _begun(device: torch.device, options: Options) -> WholeMeter | None:
    """What has counted since a function with these options was compiled; it is asked for once."""
    mine = [one for one, (key, _) in _COUNTED.items() if key == group.key_of(options)]
    found = [_COUNTED.pop(one)[1] for one in mine]
    return found[0] if found and device.type == "cpu" else None


def of(device: torch.device, options: Options) -> group.Group:
    """The group of a graph with these options."""
    return group.of(DeviceGroup if options.scope == "device" else group.Group, device, options)


class DeviceGroup(group.Group):
    """Graphs that share a budget for all that is allocated on their device."""

    alone_suffices = False
    adds_gradients = False

    def __init__(self, device: torch.device, options: Options) -> None:
        """Everything is counted from here on."""
        super().__init__(device, options)
        if device.type != "cpu":
            costs.settle(device)
        if not self.meter.works:
            raise TorchError(
                "scope='device' counts what PyTorch's allocator on the CPU hands out, which rk can do with "
                f"torch {_torch.SEEN[0]} to {_torch.SEEN[-1]}, and this is torch {torch.__version__}; "
                "scope='activations' needs it only where several calls share a budget"
            )
        self.optimizers = optimizers.Optimizers(device)
        self._is_told = False
        optimizers.watch(self)

    @functools.cached_property
    def meter(self) -> WholeMeter:
        """Reads all that is allocated."""
        return _begun(self.device, self.options) or WholeMeter(self.device)

    def join(self, owner: Any, budget: str) -> None:
        """A class is compiled for this group."""
        super().join(owner, budget)
        self.shared = True
        self._meet_parameters(owner.given)

    def _auto(self, owner: Any) -> str:
        capacity = devices.capacity(self.device, self.meter.peek())
        budget = capacity - capacity // RESERVE
        stated = devices.stated_capacity(self.device) is not None
        return str(budget if stated else devices.rounded(budget, AUTO_STEPS))

    def _meet(self, owner: Any, args: Sequence[Any]) -> None:
        if self.step is None or self.step.is_careful:
            self.meter.claim(args)

    def _meet_parameters(self, args: Iterable[Any]) -> None:
        """Looks for the optimizers that train these parameters; tells the user if there is none."""
        unknown = self.optimizers.meet(trained(args, self.device))
        self.meter.claim(self.optimizers.tensors())
        if unknown and not self._is_told:
            self._is_told = True
            warnings.warn(
                "rk: no optimizer has the parameters of this model yet, so that nothing of the budget of "
                f"{self.asked} is kept for its state; its first step() is refused if it needs more than is "
                "left. Make the optimizer before the first step, or give it to rk.compile(optimizer=...)",
                stacklevel=2,
            )

    def alone(self, budget: str) -> str:
        """What is left of the budget for a graph that is planned now."""
        if self.asked.endswith("%"):
            return budget
        room = int(self.asked) - self.meter.peek() - self.optimizers.to_come()
        return str(max(room - room // MARGIN, 1))

    def stands(self, step: Step) -> int:
        """Bytes that are there, or will be, whatever the calls of a step do."""
        # The state comes when such gradients are gone.
        return step.floor + max(step.to_come - self.optimizers.gradients_to_go(), 0)

    def taken(self, step: Step) -> int:
        """Bytes that were allocated in a step at most, with those that are to come."""
        return step.peak + step.to_come

    def _suits(self, known: Known) -> bool:
        """Whether a choice leaves room for what stands there now, or when the step began."""
        stands = self.step.stood if self.step else self.meter.peek() + self.optimizers.to_come()
        return stands - known.stood <= known.budget - known.peak

    def _new_step(self, owner: Any, args: Sequence[Any]) -> None:
        super()._new_step(owner, args)
        if self.step.known is None:
            self._meet_parameters(args[place] for place in owner.trained)
        self.step.to_come = self.optimizers.to_come()
        self.step.stood = self.meter.peek() + self.step.to_come
        if self.optimizers.come_late():
            # No other step has what this one has, and it teaches nothing.
            self.step.whole = False
        if self.step.known is None:
            inputs = [args[place] for place in owner.others if isinstance(args[place], torch.Tensor)]
            there = self.step.stood - sum(one.untyped_storage().nbytes() for one in inputs)
            gradients = self.optimizers.gradients_to_come(when_it_steps=True)
            self._check(there - self.step.to_come + gradients)

    def _coming(self, owner: Any) -> int:
        """Gradients of other calls' parameters, which are there first: backward passes come in reverse."""
        return max(self.optimizers.gradients_to_come() - owner.gradient_bytes, 0)

    def _rest(self, owner: Any, level: int) -> int:
        """As if the parameters without a gradient belonged to calls like this one: what it holds and hands on
        grows with each of them, and later their gradients stand where it was.
        """
        forwards = [one for one in self.step.events if one.forward and one.instance.number in self.open]
        mine, coming = owner.gradient_bytes, self._coming(owner)
        late = max(coming - sum(one.instance.owner.gradient_bytes for one in forwards), 0)
        first = forwards[0].level - self.step.floor if forwards else level
        growth = statistics.mean(self._growths(owner, level))
        rest = max(math.ceil(growth * late / mine) if mine else 0, late, first + coming - level)
        return rest + (level + self.stands(self.step) + rest) // BESIDE if rest else 0

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to take a step: it is refused if it would take more than there is."""
        with self.lock:
            is_new = optimizer not in self.optimizers
            if self.optimizers.know(optimizer):
                if is_new:
                    self.meter.claim(self.optimizers.tensors())
                self._check(self.meter.peek(), optimizer)

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """It has taken it."""
        with self.lock:
            self.optimizers.settle(optimizer)

    def _check(self, there: int, *some: torch.optim.Optimizer) -> None:
        """Whether the budget is enough for the step of an optimizer, or of any, with so many bytes there."""
        budget, state = self._budget(), self.optimizers.to_come(*some)
        if budget is None:
            return
        temporary = self.optimizers.temporary(*some)
        need = there + state + temporary
        if need <= budget:
            return
        if some or self.optimizers.are_known():
            name = f"the step of {type(some[0]).__name__ if some else self.optimizers}"
            takes = f", its state takes {state} more, and it needs {temporary} meanwhile"
        else:
            name, takes = "what stands between two steps", ""
        text = (
            f"{name} does not fit in {budget} bytes: with parameters and gradients {there} bytes are there"
            f"{takes}. The smallest budget that is known to do is {need} bytes"
        )
        if temporary and any(_in_groups(one, self.device) for one in some):
            text += "; with foreach=False it needs less meanwhile"
        sequence.refuse(self, text, budget, need, name)

    def _budget(self) -> int | None:
        """The budget in bytes; None for a share of what no step has told yet."""
        if not self.asked.endswith("%"):
            return int(self.asked)
        return max((one.budget for one in self.known), default=None)

    def told(self) -> str:
        """What the bytes are that are there when a call begins."""
        to_come = self.step.to_come
        return f" ({readable(to_come)} are for the state of {self.optimizers})" if to_come else ""


def _in_groups(optimizer: torch.optim.Optimizer, device: torch.device) -> bool:
    """Whether a step goes through all parameters at once, as PyTorch does by default on a GPU."""
    default = device.type == "cuda" and not optimizer.defaults.get("fused")
    asked = optimizer.defaults.get("foreach", False)
    return default if asked is None else bool(asked)
