"""One choice on all ranks of a distributed run.

Ranks observe a step each on its own. The first that has made its choice publishes it
(:mod:`rk._plan.ranks`), and the others take it if it keeps the budget by what they have observed themselves:
another rank may have more beside its calls. A rank that it does not suit makes its own, and says so.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from rk._plan import cache, ranks
from rk._run import sequence
from rk._run.observed import Observed
from rk._run.steps import Begin, Known, Step

log = logging.getLogger("rk")
_NUMBERS = ("budget", "peak", "time", "lower_bound", "holder")


def learnt(group: Any, step: Step) -> Known:
    """The choice for a step like this one; BudgetError if none fits."""

    def name() -> str:
        # The classes in their order, and which backward half is whose. All ranks have made as many choices.
        marks = [
            f"{one.owner.problem.kind} {one.has_gradients} {one.is_hooked}"
            if isinstance(one, Begin)
            else str(one)
            for one in step.trail
        ]
        options = group.options
        about = f"{group.device.type} {options.budget} {options.scope} {options.group} {group.times}"
        return f"choice-{cache.key_of(about, *marks)}"

    own: Known | None = None

    def find() -> dict[str, Any]:
        nonlocal own
        own = sequence.learnt(group, step)
        return _told(own)

    published = ranks.agreed(name, find)
    if own is not None and published == _told(own):
        return own
    taken = _taken(group, step, published)
    if taken is not None:
        return taken
    log.info("rk: what another rank has chosen does not fit here, so this rank has a choice of its own")
    return own or sequence.learnt(group, step)


def _told(known: Known) -> dict[str, Any]:
    variants = [list(one.made_by) for one in known.variants]
    return {"variants": variants, **{name: getattr(known, name) for name in _NUMBERS}}


def _taken(group: Any, step: Step, published: dict[str, Any]) -> Known | None:
    """The choice of another rank, if it suits."""
    made = zip(step.instances, published["variants"], strict=True)
    variants = [one.owner.made(made_by) for one, made_by in made]
    if any(one is None for one in variants):
        return None
    room, stands = group.room(step), group.stands(step)
    budget = published["budget"] if room is None else room + stands
    observed = Observed(step)
    if not (observed.are_apart or observed.suits(budget - stands, variants)):
        return None
    numbers = {name: published[name] for name in _NUMBERS}
    continued = functools.partial(observed.continued, budget - stands)
    about = {**numbers, "budget": budget, "observed": observed, "continued": continued}
    return Known(trail=tuple(step.trail), variants=variants, **about)
