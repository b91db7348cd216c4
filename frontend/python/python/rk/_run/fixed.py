"""Classes with one variant: those that are open inside one another divide the budget by need, and equal calls
share it.

What is compiled by others (Inductor's kernels, a step of rk's runtime) cannot be switched from call to
call. It is planned for a share of the budget, in which what runs inside of it, and what other calls hold, is
workspace of the call ``rk.tangents``. Where graphs lie inside one another, the inner one gets its share by
need, but at least what it cannot do without, and the outer one is compiled again with what is left, before
its next run. Where one graph is called several times (equal layers), it is compiled to hold least, and
compiled again to hold what all of its calls may hold alike, as soon as a step has been observed.
"""

from __future__ import annotations

import math
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from rk._graph import switches
from rk._run.variants import Variant
from rk.errors import BudgetError, CompileError, ExecutionError

Run = Callable[[list[Any]], Any]


def divide_around(owner: Any) -> None:
    """A class is planned, or runs first, now: if instances of others are open, they share the budget."""
    outer = [one for one in owner.group.open_classes() if one is not owner]
    if owner.divided or not outer or all(one.switches for one in (*outer, owner)):
        return
    for one in (*outer, owner):
        one.divided = True
    most = sum(one.base.schedule.peak - one.asked[1] for one in outer)
    _divide([*outer, owner], owner.group.alone(owner.group.asked))
    if any(one.stale for one in outer):
        _warn(outer, most + owner.problem.plan(*owner.asked).peak)


def _divide(chain: list[Any], budget: str) -> None:
    """Gives every class of a chain its share, the innermost first."""
    needs: list[int] = []
    inside = 0
    for owner in reversed(chain):
        inside = owner.problem.base_peak(inside)
        needs.append(inside)
    needs.reverse()
    total = int(needs[0] * float(budget[:-1]) / 100) if budget.endswith("%") else int(budget)
    inside = 0
    for place in reversed(range(len(chain))):
        owner = chain[place]
        share = total if place == 0 else max(min(total * needs[place] // needs[0], needs[place]), 1)
        try:
            schedule = owner.problem.plan(str(share), inside)
        except BudgetError as error:
            if place == 0 or error.smallest_bytes is None or error.smallest_bytes > total:
                raise
            share = error.smallest_bytes
            schedule = owner.problem.plan(str(share), inside)
        asked = (str(share), inside)
        owner.stale |= not owner.switches and owner is not chain[-1] and owner.asked != asked
        if not owner.switches:
            owner.asked = asked
        inside = schedule.peak


def is_planned_again(owner: Any) -> bool:
    """Whether all calls of a class may hold less or more, when it is compiled again."""
    is_alone = owner.options.scope == "device"
    return not (owner.switches or owner.divided or is_alone) and owner.options.codegen == "inductor"


def fit(owner: Any) -> None:
    """With scope ``device``, a class of Inductor's is about to be called: if its plan takes more than is
    left, it is compiled again for that. CompileError if another call is open.
    """
    group = owner.group
    if group is None:
        # A graph without a backward pass.
        return
    if group.open_classes():
        raise CompileError(
            f"{owner.name} is called while another forward pass has not had its backward pass. With "
            "scope='device' and codegen='inductor' a model has to be one graph that is called once in a step "
            "(torch.no_grad() around calls that need no gradient); codegen='fx' keeps the budget of any"
        )
    room = group.alone(group.asked)
    if owner.base.schedule.peak > int(room):
        owner.asked, owner.stale = (room, 0), True


def begin_with_least(owner: Any) -> None:
    """A class is planned first: if others wait for the same budget, it holds no more than it must."""
    if not (owner.group.comes_with_others and is_planned_again(owner)):
        return
    least, budget = owner.checkpoint, owner.group.asked
    takes = max(least.numbers[1], least.numbers[2] + least.schedule.handed)
    room = int(budget) if budget.isdigit() else 2 * takes
    if takes <= room:
        owner.asked = _to_hold(owner, least.numbers[0], room)


def tell(owners: list[Any], budget: str) -> None:
    """Tells the user of calls that another one joins, and that cannot let go of anything."""
    whole = [one for one in owners if not one.switches and not one.divided and not one.asked[1]]
    names = ", ".join(dict.fromkeys(one.name for one in whole))
    if names:
        codegen = whole[0].options.codegen
        warnings.warn(
            f"rk: another forward pass begins before the backward pass of {names}, which has one plan with "
            f"codegen {codegen!r}, made for the whole budget of {budget}. This step and the next may exceed "
            "it; then calls of codegen 'inductor' share it. codegen='fx' keeps it at once",
            stacklevel=2,
        )


def holding(owner: Any, share: float, budget: int) -> Variant | None:
    """The plan that holds this share, between the least and all."""
    least, most = owner.checkpoint.numbers[0], owner.keep_all.numbers[0]
    return owner.holding(least + math.ceil(share * max(most - least, 0)), budget)


def plan_again(owner: Any, variant: Variant) -> None:
    """The class runs this plan from its next call on, if it is one of :func:`holding`."""
    made_by, *about = variant.made_by
    if made_by == "holding" and variant.schedule.runs != owner.base.schedule.runs:
        owner.asked, owner.stale = _to_hold(owner, *about), True


def _to_hold(owner: Any, held: int, budget: int) -> tuple[str, int]:
    return str(budget), budget - held - owner.keep_all.schedule.handed


def _warn(outer: list[Any], most: int) -> None:
    """``most`` are the bytes that the step in which this is noticed may take."""
    breaks = "; ".join(_told(one.reason) for one in outer)
    warnings.warn(
        f"rk: the model runs as {len(outer) + 1} graphs, which share the budget of {outer[0].group.asked} by "
        f"need; this first step was begun without knowing that, and may take up to {most} bytes. "
        f"Broken {breaks}",
        stacklevel=2,
    )


def _told(reason: Any) -> str:
    """Where and why Dynamo ended a graph."""
    stack = getattr(reason, "user_stack", None) or []
    place = f"at {stack[-1].filename}:{stack[-1].lineno}" if stack else "at an unknown place"
    lines = str(getattr(reason, "reason", "")).strip()
    hint = ""
    if re.search(r"\b(RNN|LSTM|GRU)", lines):
        hint = "; torch._dynamo.config.allow_rnn = True lets recurrent layers be traced and planned"
    return f"{place} ({lines.split(chr(10))[0]}{hint})"


def forward(owner: Any, run: Run, place: int | None) -> Run:
    """The forward pass, noted by its group. ``place`` is a result that lives as long as what is saved."""

    def noted(args: list[Any]) -> Any:
        instance = owner.group.begin(owner, args, True)
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
        try:
            results = run(args)
        finally:
            owner.group.end_backward(instance)
        if owner.options.codegen == "rk":
            # The arena is given back, though what the caller keeps of the call may keep its ticket.
            instance.close()
        return results

    noted._boxed_call = True
    return noted
