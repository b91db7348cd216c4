"""The optimizers of a training loop, and what they will add to what stands on a device.

An optimizer allocates its state in its first step, when the forward and backward passes of that step are
over and planned. So what it will take is foreseen (:mod:`rk._plan.optimizers`) as soon as it is known: it
was given to ``rk.compile``, or it is found among the objects of the process by the parameters that it has,
or it takes its first step.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.weak import WeakIdKeyDictionary

from rk._plan import living, optimizers
from rk._plan.device import local
from rk._plan.optimizers import Footprint
from rk._plan.options import Options
from rk._run.parameters import come_in_buckets, comes_late, ddps, in_buckets, shards
from rk.errors import CompileError, OptionError

_ANNOUNCED: weakref.WeakSet[Optimizer] = weakref.WeakSet()
"""Given to ``rk.compile``."""
_WATCHING: weakref.WeakSet[Any] = weakref.WeakSet()
"""Who is told of every step of an optimizer: ``stepping(optimizer)`` before it and ``stepped`` after it."""
_HOOKS: list[Any] = []


def announce(given: Any, options: Options) -> None:
    """A user says that this optimizer, or these, will train what is compiled."""
    several = given if isinstance(given, (list, tuple)) else [given]
    for one in several:
        if not isinstance(one, Optimizer):
            name = type(one).__name__
            raise OptionError(f"optimizer={name}: give an optimizer of torch, or several in a list")
    if options.scope != "device":
        raise OptionError(f"optimizer= counts with scope='device', and the scope is {options.scope!r}")
    _ANNOUNCED.update(several)


def watch(group: Any) -> None:
    """From now on the group is told of the steps of all optimizers."""
    if not _HOOKS:
        _HOOKS.append(register_optimizer_step_pre_hook(_before))
        _HOOKS.append(register_optimizer_step_post_hook(_after))
    _WATCHING.add(group)


def _before(optimizer: Optimizer, *_: Any) -> None:
    for group in list(_WATCHING):
        group.stepping(optimizer)


def _after(optimizer: Optimizer, *_: Any) -> None:
    for group in list(_WATCHING):
        group.stepped(optimizer)


class Optimizers:
    """Those that train the parameters of some graphs."""

    def __init__(self, device: torch.device) -> None:
        """None is known."""
        self._device = device
        self._footprints: weakref.WeakKeyDictionary[Optimizer, Footprint] = weakref.WeakKeyDictionary()
        self._parameters = WeakIdKeyDictionary()
        """Those that graphs have gradients of, and all others of the optimizers; whether one has them."""
        self._ddps: list[weakref.ref[Any]] = []
        """Those that there were when new parameters were met."""
        self._settled: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """Those that have taken a step: they have all their state."""

    def meet(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Graphs train these parameters; whether some of them are new, and no optimizer has them."""
        new = [one for one in parameters if one not in self._parameters]
        if new and dist.is_available() and dist.is_initialized():
            self._ddps = [weakref.ref(one) for one in ddps()]
            new = [one for one in shards(new) if one not in self._parameters]
        for one in new:
            self._parameters[one] = False
        if new:
            for optimizer in (*_ANNOUNCED, *_alive()):
                self.know(optimizer)
        return not all(self._parameters[one] for one in new)

    def know(self, optimizer: Optimizer) -> bool:
        """Takes an optimizer for one of the loop's, if it has parameters of the loop; whether it does."""
        if optimizer in self._footprints:
            return True
        given = (one for group in optimizer.param_groups for one in group["params"])
        trained = [one for one in given if one.requires_grad]
        if not any(one in self._parameters for one in trained):
            return False
        try:
            footprint = optimizers.footprint(optimizer, self._device)
        except CompileError as error:
            warnings.warn(f"rk: {error}, and until then its state counts nothing", stacklevel=2)
            footprint = Footprint(0, 0, 0)
        self._footprints[optimizer] = footprint
        for one in trained:
            self._parameters[one] = True
        return True

    def __contains__(self, optimizer: Optimizer) -> bool:
        """Whether it is known."""
        return optimizer in self._footprints

    def settle(self, optimizer: Optimizer) -> None:
        """It has taken a step, and has its state."""
        if optimizer in self._footprints:
            self._settled.add(optimizer)

    def to_come(self, *some: Optimizer) -> int:
        """Bytes of state that do not exist yet, of some optimizers or of all."""
        waiting = (one for one in some or self._footprints if one not in self._settled)
        return sum(
            max(self._footprints[one].state - optimizers.held(one, self._device), 0) for one in waiting
        )

    def temporary(self, *some: Optimizer) -> int:
        """The most bytes that a step needs meanwhile, of some optimizers or of all."""
        return max((self._footprints[one].temporary for one in some or self._footprints), default=0)

    def gradients_to_come(self, *, when_it_steps: bool = False) -> int:
        """Bytes of gradients that the parameters do not have yet and that are no views of buckets: during a
        step, or when an optimizer takes its own.
        """
        views = [one for one in self._ddps_alive() if one.gradient_as_bucket_view]
        views = views if when_it_steps else filter(come_in_buckets, views)
        there = {id(one) for ddp in views for one in in_buckets(ddp)}
        missing = (one for one in self._parameters if one.grad is None and id(one) not in there)
        return sum(local(one).nbytes for one in missing)

    def gradients_to_go(self) -> int:
        """Bytes of gradients that DDP copies to its buckets when the step is over."""
        late = [one for ddp in self._ddps_alive() if comes_late(ddp) for one in in_buckets(ddp)]
        return sum(one.nbytes for one in late if one.grad is not None)

    def come_late(self) -> bool:
        """Whether there will be such gradients in the next step."""
        return any(map(comes_late, self._ddps_alive()))

    def _ddps_alive(self) -> list[Any]:
        return [one for reference in self._ddps if (one := reference()) is not None]

    def tensors(self) -> list[torch.Tensor]:
        """All parameters that are known, their gradients, and what the optimizers keep."""
        states = [one for known in self._footprints for one in optimizers.tensors(known.state.values())]
        gradients = [one.grad for one in self._parameters if one.grad is not None]
        return [local(one) for one in (*self._parameters, *gradients, *states)]

    def are_known(self) -> bool:
        """Whether there is one."""
        return bool(self._footprints)

    def __str__(self) -> str:
        """Their classes."""
        return ", ".join(type(one).__name__ for one in self._footprints) or "no optimizer"


def _alive() -> list[Optimizer]:
    return living.objects((Optimizer,))
