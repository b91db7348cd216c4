"""From an observed step to a choice of variants; the choice itself is made by ``rk_solve::choose``."""

from __future__ import annotations

import collections
import functools
import logging
import warnings
from typing import Any

from rk._run import alone, fixed, refinement, steps
from rk._run.metered import MARGIN
from rk._run.observed import Call, Numbers, Observed
from rk._run.steps import Known, Step
from rk._run.variants import Variant
from rk.errors import BudgetError

log = logging.getLogger("rk")
BISECTIONS = 12
LEAST_MARGIN = 2000
"""The same where nothing fits with more."""
LATE = 16
"""At most this part of the budget is left free for what other threads let go of late."""
TIGHTER = 4
"""Attempts to plan for less what holds the peak."""
ALIKE = (1.0, 0.8, 0.6, 0.45, 0.3, 0.15, 0.0)
"""What calls of one plan may hold, between the least and all."""
TIGHTER_HELD = (0.0, 0.25, 0.5)
"""What such plans may hold, between the least and all."""


def learnt(group: Any, step: Step) -> Known:
    """The choice for a step like this one; BudgetError if none fits."""
    observed = Observed(step)
    instances = observed.calls
    if observed.are_apart and group.alone_suffices:
        return _each_alone(step, observed, elsewhere_than(group, step))
    budget, stands = group.room(step), group.stands(step)
    if budget is None:
        whole = observed.need([[one.most] for one in instances])
        budget = int((whole + stands) * float(group.asked[:-1]) / 100) - stands
    asked, late = budget + stands, min(group.let_go_late(), (budget + stands) // LATE)
    most = budget - budget // LEAST_MARGIN - late
    budget -= budget // MARGIN + late
    owners = list(dict.fromkeys(one.owner for one in instances))
    variants = {owner: _ends(owner) for owner in owners}
    share = _share(observed, budget, variants, instances)
    for owner in owners:
        variants[owner] += _between(owner, budget, share)
    if observed.are_apart:
        _add_for_room(observed, budget, variants)
    again = [owner for owner in owners if not owner.switches]
    _plan_again(observed, budget, variants, again, elsewhere_than(group, step))
    for attempt in range(TIGHTER):
        chosen, time, peak, event, bound = found = observed.chosen(budget, variants)
        if chosen is not None:
            chosen, time, peak, event, bound = refinement.refined(observed, budget, variants, found)
            break
        if not attempt and _add_seen(observed, variants):
            continue
        if not _tightened(observed, budget, variants, peak, event):
            break
    if chosen is None:
        budget = most
        if observed.are_apart:
            _add_for_room(observed, budget, variants)
        chosen, time, peak, event, bound = observed.chosen(budget, variants)
    holder = _holder(observed, event)
    taken = group.taken(step)
    has_arenas = any(one.variant.schedule.step is not None for one in instances)
    if chosen is None and group.meter.works and not has_arenas and taken <= asked:
        # By plan it does not fit, and it did: what lived beside the calls was not there at their peaks.
        ran = [one.variant for one in instances]
        time, bound = (sum(getattr(one.schedule, name) for one in ran) for name in ("time", "lower_bound"))
        return Known(tuple(step.trail), ran, asked, taken, time, bound, holder, observed=observed)
    need, peak = stands + peak + peak // MARGIN, stands + peak
    if chosen is None:
        _refuse(group, asked, need, holder)
        least = [one.variant for one in instances]
        return Known(tuple(step.trail), least, asked, peak, 0, 0, holder, observed=observed, needs=need)
    found = [those[v] for those, v in zip(observed.options(variants), chosen, strict=True)]
    base = sum(one.owner.base.schedule.base_time for one in instances)
    log.info(
        "rk: %d calls of %d graphs: peak %d of %d bytes at %s, %.1f %% more time by plan, %.1f %% at least",
        len(instances),
        len(owners),
        peak,
        asked,
        holder,
        100 * (time - base) / max(base, 1),
        100 * (bound - base) / max(base, 1),
    )
    continued = functools.partial(observed.continued, budget)
    about = {"observed": observed, "continued": continued}
    return Known(tuple(step.trail), found, asked, peak, time, bound, holder, **about)


def elsewhere_than(group: Any, step: Step) -> set[Any]:
    """The classes with one plan that other known sequences have as well: their plans must suit those, too."""
    others = [known.trail for known in group.known if known.trail != tuple(step.trail)]
    return {one for trail in others for one in steps.owners(trail) if not one.switches}


def _each_alone(step: Step, observed: Observed, elsewhere: set[Any]) -> Known:
    """Each class runs what was planned for it when it was compiled, for the whole budget."""
    owners = [one.owner for one in step.instances]
    variants = [one.alone if one.holds_least and one not in elsewhere else one.base for one in owners]
    variants = [
        alone.variant(call.owner, one, accumulates=call.accumulates)
        for call, one in zip(observed.calls, variants, strict=True)
    ]
    plans = [one.schedule for one in variants]
    most = max(plans, key=lambda one: one.peak)
    time, bound = sum(one.time for one in plans), sum(one.lower_bound for one in plans)
    holder = step.instances[plans.index(most)].owner.name
    numbers = (most.budget, most.peak, time, bound, holder)
    return Known(tuple(step.trail), variants, *numbers, observed=observed)


def _add_for_room(observed: Observed, budget: int, variants: dict[Any, list[Variant]]) -> None:
    """Plans each class for all that is free while its calls run."""
    for instance, life in zip(observed.calls, observed.lives, strict=True):
        owner = instance.owner
        if owner.switches:
            begin, *late = [observed.events[event][1] for event in range(life[0], life[1] + 1)]
            room = budget - max(begin, max(late, default=0) - owner.base.schedule.handed)
            room -= sum(owner.checkpoint.code.copied.values())
            room -= owner.gradient_bytes if instance.accumulates else 0
            found = owner.holding(None, room)
            if found is not None and not any(found is one for one in variants[owner]):
                variants[owner].append(found)


def _plan_again(
    observed: Observed,
    budget: int,
    variants: dict[Any, list[Variant]],
    owners: list[Any],
    elsewhere: set[Any],
) -> None:
    """Plans classes of which all calls run one plan. Those that are called once have several to choose from;
    the others get those that hold most, of the plans that fit. Classes that are part of other sequences
    ``elsewhere`` get no plan that takes more than what they have.
    """

    def planned(owner: Any, share: float) -> Variant | None:
        found = fixed.holding(owner, share, budget)
        if found is None or owner not in elsewhere:
            return found
        pairs = zip(found.numbers[:3], owner.base.numbers[:3], strict=True)
        return found if all(new <= old for new, old in pairs) else None

    def fits(more: dict[Any, list[Variant | None]]) -> bool:
        return observed.chosen(budget, {**variants, **more})[0] is not None

    if not any(one.holds_least for one in owners) and fits({}):
        return
    most = {owner: planned(owner, 1) for owner in owners}
    if None not in most.values() and fits({owner: [one] for owner, one in most.items()}):
        variants.update({owner: [one] for owner, one in most.items()})
        return
    called = collections.Counter(one.owner for one in observed.calls)
    for owner in (one for one in owners if called[one] == 1):
        found = [planned(owner, share) for share in ALIKE]
        variants[owner] = [*variants[owner], *(one for one in found if one is not None)]
    often = [one for one in owners if called[one] > 1]
    for share in ALIKE if often else ():
        found = {owner: planned(owner, share) for owner in often}
        variants.update({owner: [one] for owner, one in found.items() if one is not None})
        if None not in found.values() and fits({}):
            return


def _add_seen(observed: Observed, variants: dict[Any, list[Variant]]) -> bool:
    """Adds what the calls have run, if that is another plan; whether there is one."""
    new = False
    for instance in observed.calls:
        if not instance.owner.switches:
            continue
        known = variants[instance.owner]
        if not any(instance.variant is one for one in known):
            known.append(instance.variant)
            new = True
    return new


def _ends(owner: Any) -> list[Variant]:
    """The variants that need no search."""
    if not owner.switches:
        return [owner.base]
    base = [] if owner.base is owner.keep_all else [owner.base]
    return [owner.checkpoint, *base, owner.keep_all]


def _share(
    observed: Observed, budget: int, variants: dict[Any, list[Variant]], instances: list[Any]
) -> float:
    """The largest share of what they would like that all instances may hold alike."""

    def fits(share: float) -> bool:
        options = [[_mixed(one, variants[one.owner], share)] for one in instances]
        return observed.choose(budget, options)[0] is not None

    low, high = 0.0, 1.0
    if fits(high):
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _mixed(call: Call, variants: list[Variant], share: float) -> Numbers:
    if call.is_fixed:
        return call.taking(call.variant)
    least, most = call.taking(variants[0]), call.taking(variants[-1])
    held = least[0] + int(share * max(most[0] - least[0], 0))
    return held, max(most[1], held), max(most[2], held), most[3]


def _between(owner: Any, budget: int, share: float) -> list[Variant]:
    """Variants that hold less than all: the share that all may hold alike, and something above."""
    if not owner.switches or share >= 1:
        return []
    least, most = owner.checkpoint.numbers[0], owner.keep_all.numbers[0]
    targets = [least + int(one * (most - least)) for one in (share, (1 + share) / 2)]
    found = [owner.holding(held, budget) for held in targets if held > least]
    return [one for one in found if one is not None]


def _tightened(
    observed: Observed, budget: int, variants: dict[Any, list[Variant]], need: int, event: int
) -> bool:
    """Plans the class that holds the peak for less; whether there is such a plan."""
    place, _ = observed.events[event]
    if place is None:
        return _holds_less(observed, variants, need - budget, event, budget)
    owner = observed.calls[place].owner
    if not owner.switches:
        return False
    # A plan's peak has what is the caller's in backward, a variant's has not.
    half, callers = (1, 0) if observed.lives[place][0] == event else (2, owner.base.schedule.handed)
    room = min(one.numbers[half] for one in variants[owner]) - (need - budget)
    least, most = owner.checkpoint.numbers[0], owner.keep_all.numbers[0]
    targets = [least + int(one * (most - least)) for one in TIGHTER_HELD]
    found = [owner.holding(held, room + callers) for held in (*targets, None)]
    new = [one for one in found if one is not None and not any(one is other for other in variants[owner])]
    variants[owner] += new
    return bool(new)


def _holds_less(
    observed: Observed, variants: dict[Any, list[Variant]], excess: int, event: int, budget: int
) -> bool:
    """Plans a class that is open while the caller is busy to hold less then; whether there is such a plan."""
    lives = zip(observed.calls, observed.lives, strict=True)
    owners = [one.owner for one, (begin, end) in lives if begin <= event <= end and one.owner.switches]
    for owner in dict.fromkeys(owners):
        for variant in sorted(variants[owner], key=lambda one: one.numbers[0]):
            target = variant.numbers[0] - excess
            found = owner.holding(target, budget) if target > owner.checkpoint.numbers[0] else None
            if found is not None and not any(found is one for one in variants[owner]):
                variants[owner].append(found)
                return True
    return False


def _holder(observed: Observed, event: int) -> str:
    place, _ = observed.events[event]
    if place is None:
        return "what runs between the graphs"
    instance = observed.calls[place]
    half = "forward" if observed.lives[place][0] == event else "backward"
    return f"{half} of {instance.owner.name}, call {place + 1} of the step"


def _refuse(group: Any, budget: int, need: int, holder: str) -> None:
    text = (
        f"no choice for the {len(group.classes)} graphs of the run fits in {budget} bytes; the smallest "
        f"budget known to do is {need} bytes; {holder} holds the peak"
    )
    refuse(group, text, budget, need, holder)


def refuse(group: Any, text: str, budget: int, smallest: int | None, holder: str) -> None:
    """Tells the user that the budget of a run cannot be met, as ``on_infeasible`` says."""
    if group.options.on_infeasible == "error":
        error = BudgetError(text)
        error.budget_bytes, error.smallest_bytes, error.holder = budget, smallest, holder
        error.lower_bound_bytes = None
        raise error
    if group.step is not None:
        group.step.is_told = True
    warnings.warn(f"rk: {text}. Going on with what holds least", stacklevel=3)
