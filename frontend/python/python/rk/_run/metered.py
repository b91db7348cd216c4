"""The part of a group that reads memory at the events of a step."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import torch

from rk import _torch
from rk._plan.options import Options
from rk._run import observe
from rk._run.observe import NOTHING, Meter
from rk._run.parameters import gradient_storages
from rk._run.steps import Event, Step
from rk._run.variants import Instance

MARGIN = 200
"""Which part of the budget is left free: requests are rounded, and what lies beside changes a little."""


class Metered:
    """See the module."""

    adds_gradients = True
    """What a plan takes is without gradients: those that are added to others stand beside it meanwhile."""
    asked: str
    device: torch.device
    lock: threading.RLock
    open: dict[int, Instance]
    options: Options
    shared: bool
    step: Step | None
    _unread = NOTHING
    """The most bytes that were read since the last event, and belong to the next one."""
    _unread_surely = NOTHING
    """The same at least."""

    @functools.cached_property
    def meter(self) -> Meter:
        """Made when the first choice is needed."""
        return Meter(self.device)

    def room(self, step: Step) -> int | None:
        """Bytes that a step may take above its floor; None if that is not known yet."""
        raise NotImplementedError

    def alone(self, budget: str) -> str:
        """The budget of a graph that is planned now, if it is alone."""
        raise NotImplementedError

    def left(self, owner: Any) -> int | None:
        """Bytes that a call of a class may take if it begins now, beside those that are open; None if the
        budget is a share of what is not known yet.
        """
        with self.lock:
            step = self.step
            if step is None or not self.open:
                alone = self.alone(self.asked)
                return None if alone.endswith("%") else int(alone) - owner.resident
            room = self.room(step)
            if room is None:
                return None
            # What stands there for a class is met when it is first called.
            room -= owner.resident if owner.calls == 0 else 0
            if step.metered and self.meter.works:
                return room - (self._level() - step.floor)
            return room - self.there_by_plan()

    def there_by_plan(self) -> int:
        """Bytes that open calls hold and have handed out."""
        return sum(one.variant.numbers[0] + one.owner.output_bytes for one in self.open.values())

    def _level(self) -> int:
        """Bytes now; the next reading is as if nobody had looked."""
        level, peak = self.meter.read()
        unseen = self._unseen()
        self._unread = max(self._unread, peak + unseen)
        self._unread_surely = max(self._unread_surely, self._surely(unseen))
        return level + unseen

    def _surely(self, unseen: int) -> int:
        """What was there at the last reading's most at least."""
        return self.meter.surely - self._late() + unseen

    def _late(self) -> int:
        """Bytes of the gradients that autograd may have and has not given to their parameters yet, because
        other halves will add to them.
        """
        step = self.step
        if step is None or not self.adds_gradients:
            return 0
        step.without = [one for one in step.without if one.grad is None]
        return sum(one.nbytes for one in step.without)

    def _unseen(self, without: Instance | None = None) -> int:
        """Bytes of the arenas of open calls in which there is no value now: on the CPU values are counted."""
        if self.device.type != "cpu":
            return 0
        others = (one for one in self.open.values() if one is not without and not one.closed)
        return sum(one.variant.unseen for one in others)

    def is_to_be_compiled(self) -> None:
        """A graph of the group will be compiled now: what was there so far is part of the step."""
        if self.shared and self.meter.works:
            with self.lock:
                if self.step is not None and self.step.metered:
                    self._level()

    def forget_peak(self) -> None:
        """What was needed while a graph was compiled is no part of a step."""
        if self.shared and self.meter.works:
            self.meter.read()

    def _gradient_goes(self, key: int, size: int) -> None:
        """A gradient that was there when a step began is about to be given back, by whatever thread."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self.step is not None and self.step.metered and self.meter.works:
                self.meter.gradient_goes(key, size)
        finally:
            self.lock.release()

    def _gradients_come(self, instance: Instance, results: Sequence[Any]) -> None:
        """Notes the gradients that a backward half has made, unless others are added to them."""
        step = self.step
        if not self.shared or step is None or not (step.metered and self.meter.works and self.adds_gradients):
            return
        with self.lock:
            halves = (one for one in reversed(step.events) if one.instance is instance and not one.forward)
            half = next(halves, None)
            if half is not None and not half.accumulates:
                found = [results[place] for place in instance.owner.gradients if place < len(results)]
                made = [one for one in found if isinstance(one, torch.Tensor)]
                half.made = self.meter.gradients_come(made, self._gradient_goes)

    def _gradients_have_come(self, step: Step) -> None:
        """Autograd has given parameters all that it will give them before the next half. Where one has got
        another tensor than the last half has made, what was made was added to that, or copied: both were
        there at once.
        """
        half = step.events[-1] if step.events else None
        if half is None or not half.made:
            return
        given = [one.grad for one in half.instance.leaves if one.grad is not None]
        others = [one for one in given if gradient_storages(one).isdisjoint(half.made)]
        half.made = frozenset()
        self.meter.gradients_have_come(bool(others))
        if others:
            half.accumulates = True
            took = half.ended + sum(one.nbytes for one in others)
            step.peak, step.surely = max(step.peak, took), max(step.surely, took)

    def _read(self, ended: Instance | None = None) -> None:
        """Reads what a half has taken, which is over now."""
        step = self.step
        if not self.shared or step is None or not step.metered:
            return
        with self.lock:
            if self.meter.works:
                level, peak = self.meter.read()
                step.makes_states |= self.meter.made_states
                step.floor = min(step.floor, level + self._unseen())
                if ended is not None and step.events and step.events[-1].instance is ended:
                    step.events[-1].ended = level + self._unseen(ended)
                step.peak = max(step.peak, peak + self._unseen(ended))
                step.surely = max(step.surely, self._surely(self._unseen(ended)))

    def _see(self) -> None:
        """A backward pass is over."""
        with self.lock:
            if self.step is not None:
                self.step.see()
                if self.meter.works:
                    self._gradients_have_come(self.step)
            self._read()

    def _meters(self, instance: Instance, *, forward: bool) -> int:
        """Notes an event with what is read; bytes of the step that are there now."""
        step = self.step
        if not step.metered:
            self._find_floor(step)
        step.metered = True
        event = Event(instance, forward)
        if self.meter.works:
            self._gradients_have_come(step)
            event.level = self._level()
            event.raw, event.gradients = self.meter.raw, self.meter.gradients
            event.most_gradients, self.meter.most_gradients = self.meter.most_gradients, self.meter.gradients
            event.late = self._late()
            step.makes_states |= self.meter.made_states
            event.before, surely = self._unread, self._unread_surely
            self._unread = self._unread_surely = NOTHING
            is_first = not step.events
            step.peak = event.before if is_first else max(step.peak, event.before)
            step.surely = surely if is_first else max(step.surely, surely)
        else:
            observe.tell_uncounted(self.options.budget, self.device)
            event.level = event.before = sum(one.bytes for one in self.open.values())
        if not forward:
            if not step.met:
                # What was made before the first call is gone by then, and was not there when the step began.
                with contextlib.suppress(RuntimeError):
                    # Whoever runs the half outside of autograd has no end to wait for.
                    torch.autograd.Variable._execution_engine.queue_callback(self._see)
            event.accumulates = self._accumulates(instance)
            if event.accumulates:
                new = [one for one in instance.leaves if one.grad is None and id(one) not in step.met]
                step.without += new
            step.met.update(map(id, instance.leaves))
        step.events.append(event)
        step.floor = min(step.floor, event.level)
        return event.level - step.floor

    def _foresee(self, instance: Instance, held: int) -> None:
        """Notes what a backward half that has been metered will take at least, by its plan and what it
        ``held`` when it began. What is read when it is over may have the gradients that it makes.
        """
        if not (instance.owner.switches and self.meter.works):
            return
        owner, variant = instance.owner, instance.variant
        # The plan takes what is the caller's to stay until the half is over.
        callers = sum(variant.code.callers.values())
        callers += owner.output_bytes if _torch.gives_gradients_up() else 0
        # Others may have made room since the half began.
        level = self._level() - self.step.events[-1].late
        self.step.surely = max(self.step.surely, level + variant.numbers[2] - held - callers)

    def _raw(self) -> int:
        self._level()
        return self.meter.raw

    def _is_surprised(self, step: Step) -> bool:
        """Whether more memory is in use at a half of a known step than the choice for it leaves room for."""
        known = step.known
        level = known.watched.get(len(step.trail) - 1)
        if level is None or not known.lets_go or step.began is None:
            return False
        # A reading forgets the most so far, which a metered step asks for.
        now = self._raw() if step.metered else self.meter.glance()
        if not step.metered:
            # Gradients that came or went meanwhile may be in the most.
            step.seen = max(step.seen, self.meter.most - step.began - level.most_gradients + known.made)
        more = now - step.began - level.growth - max(known.budget - max(known.peak, known.measured or 0), 0)
        seen = step.seen - known.budget if self.adds_gradients and known.needs is None else 0
        if max(more, seen) <= 0 or max(more, seen) <= self.let_go_late():
            return False
        step.departed = step.has_more = True
        return True

    def _find_floor(self, step: Step) -> None:
        """A known step is read from now on, and what stood there when it began was not: the caller may have
        made what stays since the last step that was read.
        """
        if not self.meter.works or step.began is None or step.known is None or not step.known.watched:
            return
        watched = step.known.watched
        # The most so far is that of earlier steps, and of optimizers.
        self.meter.read()
        gradients = (
            self.meter.gradients - watched[max(one for one in watched if one < len(step.trail))].gradients
        )
        step.floor = step.began - gradients - step.known.made

    def let_go_late(self) -> int:
        """Bytes that other threads let go of some time after a step has read them."""
        return 0

    def _accumulates(self, instance: Instance) -> bool:
        """Whether the gradients that a backward half makes count meanwhile: they are added to others, or are
        not those of parameters.
        """
        if not self.adds_gradients or instance.computes_more:
            return self.adds_gradients
        others = {id(leaf) for one in self.open.values() if one is not instance for leaf in one.leaves}
        others |= self.step.met
        gathered: Any = self.meter.parameters.is_gathered
        return any(leaf.grad is not None or id(leaf) in others or gathered(leaf) for leaf in instance.leaves)
