"""Classes that share one budget, and the step that is under way.

Everything here happens between halves of instances, under one lock, and takes microseconds once a step is
known.
"""

from __future__ import annotations

import collections
import gc
import logging
import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from rk._codegen import saved_hooks
from rk._plan import device as devices
from rk._plan import ranks
from rk._plan.options import Options
from rk._run import agreement, alone, fixed, observe, sequence, watched
from rk._run.awaited import Awaited
from rk._run.careful import Careful
from rk._run.metered import NOTHING, Metered
from rk._run.optimizers import Optimizers
from rk._run.parameters import are_gathered, may_be_gathered, trained
from rk._run.sequences import Sequences
from rk._run.steps import Known, Step, given
from rk._run.variants import Instance
from rk.errors import BudgetError

log = logging.getLogger("rk")
GROUPS: weakref.WeakValueDictionary[Any, Group] = weakref.WeakValueDictionary()
"""By device, budget as it was asked for, scope, and name."""
_WAITING: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Functions that were compiled and have not run yet, with the budget that they were given."""


def waits(function: Any, options: Options) -> None:
    """A function has been compiled; it will run some time."""
    mine = key_of(options)
    is_shared = mine in _WAITING.values() or any(key[1:] == mine for key in list(GROUPS))
    _WAITING[function] = mine
    # When the first graph is compiled, its parameters have been gathered already, and what its caller has
    # computed for it is there.
    if may_be_gathered() or (is_shared and not torch.cuda.is_initialized()):
        observe.count()


def runs(function: Any) -> None:
    """It runs."""
    _WAITING.pop(function, None)


def key_of(options: Options) -> tuple[str, str, str]:
    """What graphs on one device share that share a budget."""
    return options.budget, options.scope, options.group


def of(kind: type[Group], device: torch.device, options: Options) -> Group:
    """The group of a graph with these options, made if there is none."""
    key = (str(device), *key_of(options))
    found = GROUPS.get(key)
    if found is None:
        found = GROUPS[key] = kind(device, options)
    return found


class Group(Metered, Careful):
    """See the module."""

    alone_suffices = True
    """Calls that are never open together need no choice: each graph has what was planned for it."""

    def __init__(self, device: torch.device, options: Options) -> None:
        """A group begins without classes."""
        self.device, self.options, self.asked = device, options, options.budget
        self.lock = threading.RLock()
        self.classes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._tidied = 0
        """For how many classes garbage has been collected."""
        self.open: dict[int, Instance] = {}
        self.over: collections.deque[Instance] = collections.deque()
        """Those that hold nothing any more, and are open as far as the group knows."""
        self.awaited = Awaited()
        self.shared = False
        """Two instances were open at once, or are about to be."""
        self.step: Step | None = None
        self.sequences = Sequences()
        self.times = 0
        """How often a choice was made."""
        self.freed = 0
        """How many instances became checkpoints after their forward half, because a step departed."""
        self.floor = 0
        """Bytes that were there before the last step that was metered."""
        self._resident: dict[Any, int] = {}
        """With scope ``total``: the bytes of parameters, their gradients and buffers, of all calls seen."""

    def join(self, owner: Any, budget: str) -> None:
        """A class is compiled for this group; ``budget`` is what it would have alone."""
        if not self.classes:
            self.asked = self._auto(owner) if self.options.budget == "auto" else budget
        self.classes.add(owner)
        if self.comes_with_others or fixed.goes_on(owner):
            self.shared = True
            self.meter  # noqa: B018 - it counts from here on

    @property
    def comes_with_others(self) -> bool:
        """Whether other functions with this budget have been compiled and have not run yet."""
        mine = key_of(self.options)
        if mine not in _WAITING.values():
            return False
        # A model that nobody has any more waits for nothing, and is there until somebody looks.
        gc.collect()
        return mine in _WAITING.values()

    def _auto(self, owner: Any) -> str:
        """What the device has left for activations: gradients and the state of optimizers are to come."""
        foreseen = Optimizers(self.device)
        foreseen.meet(trained(owner.given, self.device))
        to_come = max(foreseen.gradients_to_come(), owner.gradient_bytes) + foreseen.to_come()
        left = max(devices.bytes_left(self.device) - to_come, 0)
        return str(left if devices.stated_capacity(self.device) is not None else devices.rounded(left))

    def alone(self, budget: str) -> str:
        """The budget of a graph that is planned now, if it is alone; ``budget`` is what it was given."""
        return self.asked if self.options.budget == "auto" else budget

    def taken(self, step: Step) -> int:
        """Bytes of the budget that a step has taken at most."""
        return step.peak - step.floor

    def room(self, step: Step) -> int | None:
        """Bytes that a step may take above its floor; None for a share of what a sequence needs, while there
        is no sequence.
        """
        if self.asked.endswith("%"):
            return None
        return int(self.asked) - sum(self._resident.values()) - self.stands(step)

    def open_classes(self) -> list[Any]:
        """The classes with open instances, the outermost first."""
        with self.lock:
            self._let_go()
            return list(dict.fromkeys(one.owner for one in self.open.values()))

    def is_under_way(self) -> bool:
        """Whether a step is: calls are open, or checkpoints of the user's will make some once more."""
        with self.lock:
            self._let_go()
            return bool(self.open) or len(self.awaited) > 0

    def _is_one_again(self) -> bool:
        """Whether all calls of the step so far are those of one checkpoint, which makes them once more."""
        return not self.open and self.awaited.is_one_again()

    def last(self, owner: Any) -> Instance | None:
        """The newest open instance of a class."""
        with self.lock:
            mine = (one for one in reversed(self.open.values()) if one.owner is owner and not one.closed)
            return next(mine, None)

    def begin(self, owner: Any, args: Sequence[Any]) -> Instance:
        """A forward half begins: which variant is it?"""
        with self.lock:
            self._meet(owner, args)
            if not self.shared and owner.calls == 0 and may_be_gathered():
                self.shared = self._are_gathered(owner, args)
            instance = Instance(owner, args)
            self._let_go()
            if self.step is not None and self.step.is_endless(self.open, instance):
                self._set_aside()
            if not (self.open or len(self.awaited)):
                self._new_step(owner, args)
            elif self.step.known is None and not (self.step.metered or self._is_one_again()):
                self._share()
            step = self.step
            if instance.is_in_checkpoint:
                step.awaits |= self.awaited.meet()
            if step.begins(instance, forward=True):
                self.sequences.rejoin(step, self._suits)
            can_switch = owner.switches and not instance.is_fixed
            if not self.shared:
                if can_switch and self.adds_gradients:
                    instance.variant = alone.chosen(instance)
            elif step.is_careful or (step.is_watched and self._is_surprised(step)):
                level = self._meters(instance, forward=True)
                instance.variant = self._careful(owner, level) if can_switch else owner.base
            else:
                if step.metered:
                    self._meters(instance, forward=True)
                if can_switch:
                    instance.variant = step.known.variants[instance.place]
            owner.calls += 1
            self.open[instance.number] = instance
            return instance

    def _are_gathered(self, owner: Any, args: Sequence[Any]) -> bool:
        """Whether the parameters of a call are: then what is gathered is beside it, even if it is alone."""
        self.meter.parameters.find()
        is_gathered = self.meter.parameters.is_gathered
        return owner.options.codegen == "fx" and any(is_gathered(args[place]) for place in owner.trained)

    def _rest(self, owner: Any, level: int) -> int:
        """As if the functions that have not run yet became calls like the largest of those that are open."""
        waiting = list(_WAITING.values()).count(key_of(self.options))
        if not waiting:
            return 0
        least = [one.owner.checkpoint.numbers for one in self.open.values()]
        takes = max((max(forward, backward) for _, forward, backward, _ in least), default=0)
        more = max(takes - max(owner.checkpoint.numbers[1:3]), 0)
        return math.ceil(max(self._growths(owner, level)) * waiting) + more

    def let_go_late(self) -> int:
        """Bytes of a collective of FSDP2's: on the CPU gloo's threads let go of its buffers a moment after
        it is over, and not in every step at the same time.
        """
        if self.device.type != "cpu" or not are_gathered():
            return 0
        return max((one.gradient_bytes for one in self.classes), default=0)

    def _meet(self, owner: Any, args: Sequence[Any]) -> None:
        """Equal layers are one class, and each call has parameters of its own."""
        if self.options.scope != "total":
            return
        for place in owner.state:
            storage = args[place].untyped_storage()
            self._resident[storage._cdata] = storage.nbytes()
        for place in owner.trained:
            self._resident["gradient", args[place].untyped_storage()._cdata] = args[place].nbytes

    def end(self, instance: Instance) -> None:
        """Its forward half is over."""
        step = self.step
        if step is not None and step.metered:
            self._read(instance)

    def begin_backward(self, instance: Instance) -> None:
        """A backward half begins."""
        if not self.shared:
            alone.begin_backward(instance)
            return
        with self.lock:
            step = self.step
            if step is None or instance.place < 0:
                return
            self._let_go()
            if step.begins(instance, forward=False):
                self.sequences.rejoin(step, self._suits)
            if step.is_watched:
                self._is_surprised(step)
            if step.metered or step.departed:
                held, level = instance.variant.numbers[0], self._meters(instance, forward=False)
                room = self.room(step)
                if room is not None and step.is_careful:
                    self._fit_backward(instance, room - level)
                self._foresee(instance, held)

    def end_backward(self, instance: Instance, results: Sequence[Any]) -> None:
        """Its backward half is over, with these results; none if it failed."""
        step = self.step
        if step is not None and step.metered:
            self._gradients_come(instance, results)
            self._read(instance)

    def _let_go(self) -> None:
        """Forgets the instances that hold nothing any more."""
        while self.over:
            instance = self.over.popleft()
            if self.open.pop(instance.number, None) is not None and self.step is not None:
                self.step.closed(instance)

    def _set_aside(self) -> None:
        """What is open stays so, and is no part of any step from here on."""
        self._tell_kept()
        for instance in self.open.values():
            instance.place = -1
        self.open.clear()
        self.awaited.forget()
        self.step = None

    def _share(self) -> None:
        """A call begins beside others that nobody has metered: two are open for the first time, or a graph
        that ends in the middle of a function was compiled meanwhile. From here on the step is careful.
        """
        self.shared = True
        for one in self.open.values():
            # Each has run what was planned for the whole budget.
            one.give_up()
        fixed.tell([one.owner for one in self.open.values()], self.asked)
        self.meter.begin()
        self.step.metered, self.step.whole = True, False
        # What was there before the meter began is not in what it reads on the CPU.
        there = self.meter.read()[0] + self._unseen() - self.there_by_plan() if self.meter.works else 0
        self.step.floor = there
        hooked = sum(one.variant.numbers[0] for one in self.open.values() if one.is_hooked)
        self.step.assumed = hooked + sum(one.owner.output_bytes for one in self.open.values())

    def _new_step(self, owner: Any, args: Sequence[Any]) -> None:
        self.finish(owner)
        if self.alone_suffices:
            # With scope `device`, all that is there when a step begins counts.
            self.awaited.begin(owner)
        first = [args[place] for place in owner.trained[:1]]
        has_gradients = any(one.is_leaf and one.grad is not None for one in first)
        key = owner, has_gradients, saved_hooks.installed()[0]
        known = self.sequences.expected(key) if self.shared else None
        known = known if known is not None and self._suits(known) else None
        metered = self.shared and (known is None or known.measured is None)
        self.step = Step(key, known, metered=metered, whole=True)
        self.step.floor, self._unread, self._unread_surely = self.floor, NOTHING, NOTHING
        if metered and self.meter.works:
            if not self.sequences.known and self._tidied != len(self.classes):
                # What nobody has any more would be there now, and gone when somebody looks. Once for each
                # class: steps that teach nothing, such as evaluations, are not to wait for it.
                self._tidied = len(self.classes)
                gc.collect()
            self.meter.begin()
            if self.adds_gradients:
                self.meter.watch_gradients(self._gradient_goes)
            # What was computed or gathered for the first instance is not what the step began with. Without
            # gradients nothing tells it from a batch that stands there, until backward is over.
            self.step.given = given(args[place] for place in owner.others)
            made = sum(one.nbytes for one in self.step.given.values())
            self.step.floor = self.meter.read()[0] - made - self.meter.parameters.gathered_bytes
            self.step.began = self.meter.raw
        elif known is not None and known.watched and self.meter.works:
            self.step.began = self.meter.glance()

    @property
    def known(self) -> list[Known]:
        """The choices that have been made, the latest at the end."""
        return list(self.sequences.known.values())

    def _suits(self, known: Known) -> bool:
        """Whether a choice may be used now."""
        return True

    def _take_back(self, step: Step, known: Known) -> None:
        """A known sequence has come again, and may have run in less than was chosen for it."""
        pairs = zip(step.instances, known.variants, strict=False)
        least = [(one.owner, variant) for one, variant in pairs if one.owner.holds_least]
        elsewhere = sequence.elsewhere_than(self, step) if least else ()
        for owner, variant in least:
            if owner not in elsewhere:
                fixed.take_back(owner, variant)

    def finish(self, next_owner: Any) -> None:
        """What the last step teaches; ``next_owner`` is the class that begins the next one."""
        step, self.step = self.step, None
        if step is None or not self.shared:
            return
        if step.metered:
            step.see()
            self.floor = step.floor
            if self.meter.works:
                self._tell_exceeded(step)
                # No other step has that.
                step.whole = step.whole and not step.makes_states
        if step.known is not None and not step.departed:
            self.sequences.met(step.key, step.known.trail)
            self._take_back(step, step.known)
            if len(step.trail) == len(step.known.trail):
                step.known.surprises = 0
                if step.metered:
                    step.known.measured = self.taken(step)
                    # A rank that observes again by itself chooses by itself.
                    if not ranks.are_several():
                        surely = step.known.measured - (step.peak - step.surely)
                        self.sequences.measured(step.key, step.known, surely)
            return
        trail = tuple(step.trail)
        self.sequences.met(step.key, trail)
        known = self.sequences.known.get((step.key, trail))
        if known is not None:
            self._take_back(step, known)
        if step.has_more:
            self.sequences.surprised(step.key, step.known)
        if step.known is not None or (known is not None and self._suits(known)):
            # Something else was expected.
            return
        if step.whole and step.metered and any(not event.forward for event in step.events):
            try:
                known = agreement.learnt(self, step)
                for instance, variant in zip(step.instances, known.variants, strict=True):
                    fixed.take(instance.owner, variant)
                known.stood = step.stood
                known.watched = watched.levels(step, known.observed, known.variants)
                known.made = step.events[0].level - step.floor
                known.lets_go = watched.lets_go(step) and not ranks.are_several()
                self.sequences.learnt(step.key, known)
            except BudgetError:
                # Another model's budget is told when that model runs again.
                if any(one.owner is next_owner for one in step.instances):
                    raise
            self.times += 1
