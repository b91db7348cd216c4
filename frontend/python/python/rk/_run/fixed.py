"""Classes with one variant: those that are open inside one another divide the budget by need.

What is compiled by others (Inductor's kernels, a step of rk's runtime) cannot be switched from call to
call. It is planned for a share of the budget, in which what runs inside of it is workspace of the call
``rk.tangents``: the inner one gets its share by need, but at least what it cannot do without, and the
outer one is compiled again with what is left, before its next run.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from rk.errors import BudgetError

Run = Callable[[list[Any]], Any]


def divide_around(owner: Any) -> None:
    """A class is planned, or runs first, now: if instances of others are open, they share the budget."""
    outer = [one for one in owner.group.open_classes() if one is not owner]
    if owner.divided or not outer or all(one.switches for one in (*outer, owner)):
        return
    owner.divided = True
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


def backward(owner: Any, run: Run) -> Run:
    """The backward pass; of several open instances it is taken for that of the last."""

    def noted(args: list[Any]) -> Any:
        instance = owner.group.last(owner)
        if instance is None:
            return run(args)
        owner.group.begin_backward(instance)
        try:
            return run(args)
        finally:
            owner.group.end_backward(instance)

    noted._boxed_call = True
    return noted
