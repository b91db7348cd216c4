"""An observed step as the planner wants it: what its calls take, and what lies beside them."""

from __future__ import annotations

import dataclasses
from typing import Any

from rk import _rk
from rk._run import fixed
from rk._run.steps import Step
from rk._run.variants import Variant

Numbers = tuple[int, int, int, int]
"""See :attr:`rk._run.variants.Variant.numbers`."""


@dataclasses.dataclass(frozen=True)
class Call:
    """An instance, and what it has run."""

    owner: Any
    variant: Variant
    is_fixed: bool
    """It has several plans, and cannot run another than this."""
    accumulates: bool
    """See :attr:`rk._run.steps.Event.accumulates`."""

    def taking(self, variant: Variant) -> Numbers:
        """What another variant takes in its place."""
        return self._with_gradients(variant.numbers)

    @property
    def most(self) -> Numbers:
        """What it takes where nothing runs again."""
        return self._with_gradients(fixed.most(self.owner))

    def _with_gradients(self, numbers: Numbers) -> Numbers:
        """Gradients that are added count from the begin of the half. That is more than
        :meth:`rk._run.classes.GraphClass.accumulating` says, and leaves room for what the caller keeps and no
        step sees, such as results of earlier micro-batches.
        """
        held, forward, backward, time = numbers
        return held, forward, backward + (self.owner.gradient_bytes if self.accumulates else 0), time


class Observed:
    """The events of a step as the planner wants them: what lies beside the instances at each."""

    def __init__(self, step: Step) -> None:
        """Reads a step from which memory was read at every event."""
        adding = {one.instance.place for one in step.events if one.accumulates}
        self.calls = [
            Call(one.owner, one.variant, one.is_fixed, one.place in adding) for one in step.instances
        ]
        """What ran. A choice is judged by it later on, when the instances are gone."""
        self.events: list[tuple[int | None, int]] = []
        self.places: dict[int, int] = {}
        """Per event of the step, its place among these."""
        self.are_apart = step.are_apart
        """Whether every instance was over before the next one began."""
        self._read(step)
        last = len(step.trail) - 1
        begun = {one.instance.place: place for place, one in enumerate(step.events) if one.forward}
        self.lives = [
            (self.places[begun[one.place]], self.places[step.ends.get(one.place, last)])
            for one in step.instances
        ]

    def _read(self, step: Step) -> None:
        held: dict[int, int] = {}
        for place, event in enumerate(step.events):
            for done in [one for one in held if step.ends.get(one, len(step.trail)) < place]:
                del held[done]
            inside = sum(held.values())
            if event.before > event.level and place > 0:
                # The caller was busy, and had more in the meantime.
                self.events.append((None, max(event.before - step.floor - inside, 0)))
            beside = max(event.level - step.floor - inside, 0)
            instance = event.instance
            self.places[place] = len(self.events)
            self.events.append((instance.place, beside))
            if event.forward:
                held[instance.place] = instance.variant.numbers[0]

    def choose(self, budget: int, options: list[list[Numbers]]) -> Any:
        """The choice when instance ``i`` may be as ``options[i]`` says."""
        classes: dict[tuple[Numbers, ...], int] = {}
        instances = []
        for numbers, life in zip(options, self.lives, strict=True):
            place = classes.setdefault(tuple(numbers), len(classes))
            instances.append((place, *life))
        return _rk.choose(max(budget, 0), [list(one) for one in classes], instances, self.events)

    def suits(self, budget: int, variants: list[Variant]) -> bool:
        """Whether the budget is kept when instance ``i`` runs variant ``i``."""
        options = [[one] for one in self.numbers(variants)]
        return self.choose(budget, options)[0] is not None

    def continued(self, budget: int, begun: list[Variant], chosen: list[Variant]) -> list[Variant] | None:
        """What instances may run if the first have run ``begun``, of what was ``chosen`` for all."""
        mine: dict[Any, list[Variant]] = {one.owner: _least(one.owner) for one in self.calls}
        for call, variant in zip(self.calls, chosen, strict=True):
            if not any(variant is one for one in mine[call.owner]):
                mine[call.owner].append(variant)
        found = [*([one] for one in begun), *self.options(mine)[len(begun) :]]
        options = [[_numbers(one, v) for v in those] for one, those in zip(self.calls, found, strict=True)]
        places = self.choose(budget, options)[0]
        return None if places is None else [those[v] for those, v in zip(found, places, strict=True)]

    def chosen(self, budget: int, variants: dict[Any, list[Variant]]) -> Any:
        """The choice when each instance may run any of its class's variants."""
        pairs = zip(self.calls, self.options(variants), strict=True)
        return self.choose(budget, [[_numbers(one, v) for v in those] for one, those in pairs])

    def options(self, variants: dict[Any, list[Variant]]) -> list[list[Variant]]:
        """What each instance may run, of the variants of its class."""
        return [[one.variant] if one.is_fixed else variants[one.owner] for one in self.calls]

    def numbers(self, variants: list[Variant]) -> list[Numbers]:
        """What instance ``i`` takes when it runs variant ``i``."""
        return [_numbers(one, variant) for one, variant in zip(self.calls, variants, strict=True)]

    def need(self, options: list[list[Numbers]]) -> int:
        """The smallest budget with these options."""
        return self.choose(0, options)[2]


def _numbers(instance: Call, variant: Variant) -> Numbers:
    """What a variant takes where another one was observed: what it saves of the caller's may live longer."""
    held, forward, backward, time = instance.taking(variant)
    if variant is instance.variant or not instance.owner.switches:
        return held, forward, backward, time
    seen = instance.variant.code.callers
    lives = {**instance.owner.checkpoint.code.callers, **variant.code.callers}
    more = sum(size for key, size in lives.items() if key not in seen)
    # Copies that it takes to become a checkpoint.
    copied = instance.owner.checkpoint.code.copied
    more += sum(size for key, size in copied.items() if key not in variant.code.places)
    return held + more, forward + more, backward + more, time


def _least(owner: Any) -> list[Variant]:
    return [owner.checkpoint] if owner.switches else []
