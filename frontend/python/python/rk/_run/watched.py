"""Memory in a known step: what to expect of it, for code of the caller's that takes more than it did.

The halves of a known step are those that were observed, and what lives between them need not be: a loss on
every layer now and then, activations that are kept for a log. Reading memory at every half would cost more
than the rest of the bookkeeping, so it is looked at a few times in a step. Where more is in use than the
choice leaves room for, the step is careful from there on.
"""

from __future__ import annotations

from rk._run.observed import Observed
from rk._run.steps import Level, Step
from rk._run.variants import Variant

MOST = 16
"""Halves of a step at which memory is looked at, beside the first backward half."""


def levels(step: Step, observed: Observed, variants: list[Variant]) -> dict[int, Level]:
    """What is there at some halves of such a step if its calls run these variants.

    Args:
        step: A step that was observed from its begin.
        observed: The same for the planner.
        variants: What is chosen, one for each call.

    Returns:
        The levels by place of the half; the first is among them.
    """
    if step.began is None:
        return {}
    ran = observed.numbers([one.variant for one in observed.calls])
    more = [new[0] - old[0] for new, old in zip(observed.numbers(variants), ran, strict=True)]
    turn = next((place for place, one in enumerate(step.events) if not one.forward), 0)
    stride = -(-len(step.events) // MOST)
    found: dict[int, Level] = {}
    open_calls: set[int] = set()
    last = 0
    for place, event in enumerate(step.events):
        open_calls -= {one for one in open_calls if step.ends.get(one, len(step.trail)) < place}
        if place == turn or not place % stride:
            late = sum(more[one] for one in open_calls)
            since = step.events[last + 1 : place + 1] or [event]
            gradients, most = event.gradients, max(one.most_gradients for one in since)
            before = step.events[0].gradients
            most = max(most, step.events[last].gradients)
            found[place] = Level(event.raw - step.began + late, gradients - before, most - before)
            last = place
        if event.forward:
            open_calls.add(event.instance.place)
    return found


def lets_go(step: Step) -> bool:
    """Whether its calls can do with less than they hold: those of classes with one plan cannot."""
    return all(one.owner.switches for one in step.instances)
