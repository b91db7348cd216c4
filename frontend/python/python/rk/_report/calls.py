"""The steps that a process runs as numbers, for their page (passes/report/src/calls.rs): calls in their
order, the plan of each, and what lies beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rk._run.steps import owners as called

if TYPE_CHECKING:
    from rk._run.classes import GraphClass
    from rk._run.group import Group
    from rk._run.sequence import Numbers
    from rk._run.steps import Known
    from rk._run.variants import Variant


def steps(shared: Group, owners: list[GraphClass]) -> list[dict[str, Any]]:
    """Those of a group: the sequences that it has a choice for, and each class that is in none of them."""
    known = [one for one in shared.known if one.observed is not None]
    together = {owner for one in known for owner in called(one.trail)}
    alone = [one for one in owners if one.calls and one not in together]
    return [*(_together(shared, one) for one in known), *(_alone(shared, one) for one in alone)]


def _about(shared: Group) -> str:
    asked = "" if shared.options.budget.isdigit() else f", budget {shared.options.budget}"
    return f"Device {shared.device}, scope {shared.options.scope}{asked}"


def _together(shared: Group, known: Known) -> dict[str, Any]:
    observed = known.observed
    ran = zip(observed.calls, known.variants, observed.numbers(known.variants), strict=True)
    plans, places = _plans([(one.owner, variant, numbers) for one, variant, numbers in ran])
    return {
        "about": _about(shared),
        "budget": known.budget,
        "needs": known.needs,
        "measured": known.measured,
        "lower_bound": known.lower_bound,
        "stands": known.stood,
        "plans": plans,
        "calls": [(place, *life) for place, life in zip(places, observed.lives, strict=True)],
        "moments": observed.events,
    }


def _alone(shared: Group, owner: GraphClass) -> dict[str, Any]:
    plan = owner.base.schedule
    # What is handed out is the caller's in backward; beside an arena it is part of the peak.
    handed = plan.handed if plan.step is None else 0
    plans, _ = _plans([(owner, owner.base, owner.base.numbers)])
    return {
        "about": _about(shared),
        "budget": plan.budget,
        "needs": None,
        "measured": None,
        "lower_bound": plan.lower_bound,
        "stands": 0,
        "plans": plans,
        "calls": [(0, 0, 1)],
        "moments": [(0, 0), (0, handed)],
    }


def _plans(ran: list[tuple[Any, Variant, Numbers]]) -> tuple[list[dict[str, Any]], list[int]]:
    """What different plans there are, and the place of each call's among them."""
    owners = list(dict.fromkeys(owner for owner, _, _ in ran))
    names = [owner.name for owner in owners]
    # Graphs of one function, such as layers of which the first one's input has no gradient, have one name.
    told = {
        owner: name if names.count(name) == 1 else f"{name} ({1 + names[:place].count(name)})"
        for place, (owner, name) in enumerate(zip(owners, names, strict=True))
    }
    found: dict[tuple[int, int, Numbers], dict[str, Any]] = {}
    for owner, variant, numbers in ran:
        schedule = variant.schedule
        found.setdefault(
            (id(owner), id(variant), numbers),
            {
                "graph": told[owner],
                "name": variant.name,
                "codegen": owner.options.codegen,
                "numbers": numbers,
                "base_time": schedule.base_time,
                "again": sum(again for _, again in schedule.runs),
            },
        )
    keys = list(found)
    return list(found.values()), [keys.index((id(a), id(b), c)) for a, b, c in ran]
