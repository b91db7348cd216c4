"""Classes with one plan for all of their calls, which are compiled again where another plan is chosen.

What is compiled by others (Inductor's kernels, a step of rk's runtime, operators of higher order) cannot be
switched from call to call. Where such a class may share the budget, it is compiled to hold least, within what
is left beside the calls that are open; a call that does not fit beside them makes room, or is compiled again.
As soon as a step has been observed, a plan is chosen as for any call, the same for all calls of a class, and
the class is compiled again before its next call.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rk._graph import switches
from rk._run import alone
from rk._run.metered import MARGIN
from rk._run.variants import Variant
from rk.errors import BudgetError, ExecutionError

Run = Callable[[list[Any]], Any]
MOST_RETURNS = 4
"""Where single steps take a plan away again and again, it is not compiled for ever."""


def goes_on(owner: Any) -> bool:
    """Whether a graph ends in the middle of a function, so that others may run inside of it."""
    return bool(getattr(owner.reason, "graph_break", False))


def begin(owner: Any) -> None:
    """A class is planned first: if it may share the budget with others, it holds no more than it must. So do
    those that were compiled ahead and have not run yet (the buckets of DDP).
    """
    group = owner.group
    ahead = [one for one in group.classes if one.calls == 0 and one.base is not None]
    if ahead or group.open_classes() or group.comes_with_others or goes_on(owner):
        for one in (*ahead, owner):
            if not one.switches and not one.holds_least:
                _hold_least(one, group.left(one))


def _hold_least(owner: Any, room: int | None) -> bool:
    """A class holds least within so many bytes from its next call on; whether there is such a plan."""
    found = _least(owner, room)
    if found is not None:
        take(owner, found)
        owner.holds_least = True
    return found is not None


def _least(owner: Any, room: int | None) -> Variant | None:
    """The plan that holds least of those that take at most so many bytes; None if none is found."""
    if _has_arena(owner):
        found = owner.smallest
        return found if found is not None and (room is None or found.numbers[1] <= room) else None
    if room is None:
        # What it is a share of is not known; what a graph would have alone is within that.
        try:
            room = owner.alone.schedule.budget
        except BudgetError as error:
            room = (error.smallest_bytes or 0) - owner.resident
    return owner.holding(owner.checkpoint.numbers[0], room) or owner.holding(None, room)


def _has_arena(owner: Any) -> bool:
    return owner.options.codegen == "rk"


def fit(owner: Any, arguments: Sequence[Any]) -> None:
    """A class with one plan is about to be called: if that takes more than is left beside the calls that are
    open, they make room, or it is compiled again for less. BudgetError if nothing fits.
    """
    group = owner.group
    if group is None or owner.switches:
        # Without a group it is a graph without a backward pass.
        return
    with group.lock:
        if group.is_under_way():
            _fit_beside(owner)
        else:
            # What the last step has taught is compiled before the next one begins.
            group.finish(owner)
            if owner.options.scope == "device" and not owner.stale:
                _fit_alone(owner)
            elif _is_alone(owner) and not owner.adds and alone.have_gradients(arguments):
                take(owner, alone.variant(owner, owner.base, accumulates=True))


def _is_alone(owner: Any) -> bool:
    return owner.group.adds_gradients and not (owner.group.shared or owner.stale)


def _fit_beside(owner: Any) -> None:
    group, step = owner.group, owner.group.step
    if owner.stale or not (step is None or step.would_depart(owner)):
        return
    room = group.left(owner)
    if room is None:
        return
    takes = max(owner.base.numbers[1:3])
    missing = group.make_room(takes - room)
    if not missing or _hold_least(owner, takes - missing):
        return
    if not give_way(group):
        take(owner, group.exceeds(owner, owner.base, group.room(step) - (takes - missing)))
    elif not owner.holds_least:
        _hold_least(owner, group.room(step))


def _fit_alone(owner: Any) -> None:
    """With scope ``device``, what stands there may have grown."""
    room, (_, forward, backward, _) = owner.group.left(owner), owner.base.numbers
    takes = max(forward, backward + owner.base.schedule.handed)
    # A plan may use up what is left free for others.
    if room is None or takes <= room + room // MARGIN:
        return
    if not (owner.holds_least and _hold_least(owner, room)):
        owner.asked, owner.stale = (str(room), 0), True


def give_way(group: Any) -> bool:
    """A call does not fit beside those that are open: where these run plans that were made for the whole
    budget, their classes hold least from the next step on, and the user is told of this one.
    """
    whole = [one for one in group.open_classes() if not one.switches and not one.holds_least]
    if not whole:
        return False
    tell(whole, group.asked)
    for one in whole:
        _hold_least(one, group.room(group.step))
    return True


def tell(owners: list[Any], budget: str) -> None:
    """Tells the user of calls that another one joins, and that cannot let go of anything."""
    whole = [one for one in owners if not one.switches and not one.holds_least]
    names = ", ".join(dict.fromkeys(one.name for one in whole))
    if names:
        if (step := whole[0].group.step) is not None:
            step.is_told = True
        codegen = whole[0].options.codegen
        instead = "" if codegen == "fx" else ". codegen='fx' keeps it at once"
        why = "of an operator of higher order" if codegen == "fx" else f"of codegen {codegen!r}"
        warnings.warn(
            f"rk: another forward pass begins before the backward pass of {names}, which has one plan "
            f"because {why}, made for the whole budget of {budget}. This step may exceed it; the calls share "
            f"it as soon as a step has shown them together{instead}",
            stacklevel=2,
        )


def holding(owner: Any, share: float, budget: int) -> Variant | None:
    """The plan that holds this share, between the least and all."""
    most = owner.keep_all
    if _has_arena(owner):
        least = owner.smallest
        if least is None:
            return None
        spread = max(most.schedule.peak - least.numbers[1], 0)
        return owner.holding(None, min(least.numbers[1] + math.ceil(share * spread), budget))
    least = owner.checkpoint.numbers[0]
    return owner.holding(least + math.ceil(share * max(most.numbers[0] - least, 0)), budget)


def most(owner: Any) -> tuple[int, int, int, int]:
    """What a class takes that runs nothing again, as :attr:`rk._run.variants.Variant.numbers`."""
    numbers, peak = owner.keep_all.numbers, owner.keep_all.schedule.peak
    if not _has_arena(owner):
        return numbers
    return peak - owner.problem.beside_arena, peak, peak, numbers[3]


def take(owner: Any, variant: Variant) -> None:
    """A class with one plan runs this one from its next call on, if it is one to be compiled again for."""
    made_by, *about = variant.made_by
    if owner.switches or variant is owner.base:
        return
    if made_by == "alone":
        asked = owner.asked_alone
    elif made_by == "compiled_for":
        asked = tuple(about)
    elif made_by == "within":
        asked = (str(about[0] + owner.resident), 0)
    elif made_by == "holding":
        held, budget = about
        asked = (str(budget + owner.resident), owner.inside(held, budget))
    elif made_by == "adding":
        asked, owner.adds = owner.asked_alone, True
    else:
        return
    if owner.base is not None:
        now, then = owner.base.schedule, variant.schedule
        owner.stale |= (now.runs, now.step) != (then.runs, then.step)
        # The same kernels, of which more is allocated at once than is planned, are planned for less.
        owner.stale |= made_by == "adding" and owner.options.codegen == "inductor"
    owner.asked, owner.holds_least = asked, False


def take_back(owner: Any, variant: Variant) -> None:
    """A class that a single step had no room for, and that holds least since then, goes back to the plan that
    was chosen for the steps that have come again.
    """
    if variant is not owner.base and owner.returns < MOST_RETURNS:
        owner.returns += 1
        take(owner, variant)


def forward(owner: Any, run: Run, place: int | None) -> Run:
    """The forward pass, noted by its group. ``place`` is a result that lives as long as what is saved."""

    def noted(args: list[Any]) -> Any:
        instance = owner.group.begin(owner, args)
        try:
            results = run(args)
        except BaseException:
            instance.close()
            raise
        if place is None:
            instance.close()
        else:
            weakref.finalize(results[place].untyped_storage(), instance.close).atexit = False
        owner.group.end(instance)
        return results

    noted._boxed_call = True
    return noted


def _check_switches(owner: Any, instance: Any) -> None:
    """What is compiled by others cannot run some of its calls with the switches of the forward pass."""
    setting, present = map(owner.relevant.setting, (instance.setting, owner.relevant.values()))
    changed = switches.differences(setting, present)
    if changed and any(second for _, second in owner.base.schedule.runs):
        instead = "" if owner.options.codegen == "fx" else "; codegen='fx' runs it with what forward had"
        raise ExecutionError(
            f"{owner.name}: since the forward pass, {changed} has been changed, so what runs again in the "
            "backward pass would have other bits. A context manager around the model has to be around "
            f"backward() as well{instead}"
        )


def backward(owner: Any, run: Run) -> Run:
    """The backward pass; of several open instances it is taken for that of the last."""

    def noted(args: list[Any]) -> Any:
        instance = owner.group.last(owner)
        if instance is None:
            return run(args)
        _check_switches(owner, instance)
        owner.group.begin_backward(instance)
        results: Any = ()
        try:
            results = run(args)
        finally:
            owner.group.end_backward(instance, results)
        if owner.options.codegen == "rk":
            # The arena is given back, though what the caller keeps of the call may keep its ticket.
            instance.close()
        return results

    noted._boxed_call = True
    return noted
