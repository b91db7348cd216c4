"""More plans for the classes of a step, where they save time.

A choice is made among the plans that each class has, and a class can be planned to hold any number of bytes
between its two passes. So columns are generated, as for a linear program with more of them than anybody would
list: where a choice uses a plan, its neighbours on the curve of bytes against time are made, by bisection.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rk._run.observed import Observed
    from rk._run.variants import Variant

    Variants = dict[Any, list[Variant]]

ROUNDS = 3
WORTH = 1000
"""A round that saves less than this part of the time is the last."""
NARROW = 16
"""Between two plans that differ by less than this part of what a class can hold, none is made."""
MOST_MADE = 24
"""No round begins after so many plans: each takes the planner a tenth of a second or two."""
MOST_PLANS = 4
"""How many plans of a class may run: each is compiled."""


def refined(observed: Observed, budget: int, variants: Variants, found: Any) -> Any:
    """The choice among more variants, which are added; ``found`` is that among the present ones."""
    made = 0
    for number in range(ROUNDS):
        before = found[1]
        added = _add_between(observed, budget, variants, found[0] if number else None)
        made += added
        if not added:
            break
        found = observed.chosen(budget, variants)
        if made >= MOST_MADE or (number and before - found[1] < before // WORTH):
            break
    few = {owner: _most_used(observed, owner, known, found[0]) for owner, known in variants.items()}
    if any(few[owner] is not known for owner, known in variants.items()):
        fewer = observed.chosen(budget, few)
        if fewer[0] is not None:
            variants.update(few)
            return fewer
    return found


def _add_between(observed: Observed, budget: int, variants: Variants, chosen: list[int] | None) -> int:
    """Plans each class for what is halfway between two that it has: any two, or what its calls are to run and
    the next; how many plans there are more.
    """
    added = 0
    for owner, known in variants.items():
        if not owner.switches:
            continue
        narrow = (owner.keep_all.numbers[0] - owner.checkpoint.numbers[0]) // NARROW
        places = range(len(known)) if chosen is None else _used(observed, owner, chosen)
        used = {known[place].numbers[0] for place in places}
        held = sorted({one.numbers[0] for one in known})
        for less, more in itertools.pairwise(held):
            if more - less > max(narrow, 1) and (less in used or more in used):
                found = owner.holding((less + more) // 2, budget)
                if found is not None and not any(found.numbers == one.numbers for one in known):
                    known.append(found)
                    added += 1
    return added


def _most_used(observed: Observed, owner: Any, known: list[Variant], chosen: list[int]) -> list[Variant]:
    """No more variants than may run: what is chosen most often, and what holds least."""
    used = _used(observed, owner, chosen)
    places = sorted(dict.fromkeys(used), key=used.count, reverse=True)
    if len(places) <= MOST_PLANS:
        return known
    least = min(range(len(known)), key=lambda place: known[place].numbers[0])
    return [known[place] for place in dict.fromkeys([least, *places[: MOST_PLANS - 1]])]


def _used(observed: Observed, owner: Any, chosen: list[int]) -> list[int]:
    """The places of the variants that the calls of a class run."""
    return [
        place
        for one, place in zip(observed.calls, chosen, strict=True)
        if one.owner is owner and not one.is_fixed
    ]
