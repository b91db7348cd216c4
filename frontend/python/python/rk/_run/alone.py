"""Calls that have the whole budget: of a model that is one graph, and of graphs that are never open together.

No memory is read for them. What a call takes is known by plan, and changes with one thing that the caller
does: where the parameters have gradients (a second micro-batch, ``zero_grad(set_to_none=False)``), those that
the backward pass makes are added to them, and count until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from rk._run.variants import Variant


def have_gradients(arguments: Iterable[Any]) -> bool:
    """Whether the parameters among the arguments of a graph have gradients; all are taken to be like the
    first.
    """
    trained = (one for one in arguments if isinstance(one, nn.Parameter) and one.requires_grad)
    first = next(trained, None)
    return first is not None and first.grad is not None


def variant(owner: Any, found: Variant, *, accumulates: bool) -> Variant:
    """What a call of a class runs.

    Args:
        owner: The class (:class:`rk._run.classes.GraphClass`).
        found: The variant that was planned for the whole budget.
        accumulates: The gradients that the call makes are added to others.

    Returns:
        That variant, or another one if the gradients do not fit beside it.

    Raises:
        BudgetError: No plan leaves room for them.
    """
    if not accumulates or _fits(owner, found):
        return found
    return owner.adding


def _fits(owner: Any, found: Variant) -> bool:
    # A share is one of what the call takes without the gradients.
    if owner.options.scope != "activations" or owner.asked_alone[0].endswith("%"):
        return True
    plan = found.schedule
    # In an arena there is room for what leaves the step.
    callers = plan.handed if plan.step is None else 0
    return owner.accumulating(found) + callers <= plan.budget
