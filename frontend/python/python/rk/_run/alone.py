"""Calls that have the whole budget: of a model that is one graph, and of graphs that are never open together.

No memory is read for them. What a call takes is known by plan, and changes with two things that the caller
does: where the parameters have gradients (a second micro-batch, ``zero_grad(set_to_none=False)``), those that
the backward pass makes are added to them, and count until then; and with ``retain_graph=True`` nothing that
the backward pass reads is let go of.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from rk._run.variants import Instance, Variant
from rk.errors import BudgetError

TRUSTED = 2
"""After so many calls in a row that found their gradients gone, the next one counts on it."""
NEVER = -1
"""A call has counted on it, and they were there."""


def have_gradients(arguments: Iterable[Any]) -> bool:
    """Whether one of the parameters among the arguments of a graph has a gradient."""
    trained = (one for one in arguments if isinstance(one, nn.Parameter) and one.requires_grad)
    return any(one.grad is not None for one in trained)


def gradients_there(leaves: Iterable[torch.Tensor]) -> int:
    """Bytes of the gradients that parameters have."""
    return sum(one.grad.nbytes for one in leaves if one.grad is not None)


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


def _fits(owner: Any, found: Variant, there: int | None = None) -> bool:
    """Whether a variant has room for gradients that are there, of which ``there`` bytes are known."""
    # A share is one of what the call takes without the gradients.
    if owner.asked_alone[0].endswith("%"):
        return True
    plan = found.schedule
    # In an arena there is room for what leaves the step.
    callers = plan.handed if plan.step is None else 0
    takes = owner.accumulating(found)
    if there is not None and plan.step is None:
        # As if all that are there stood beside the whole half.
        takes = min(takes, plan.backward + there)
    return takes + callers <= plan.budget


def chosen(instance: Instance) -> Variant:
    """What a call whose gradients may be added to others runs. Where no plan leaves room for them, that is
    told when its backward half begins: the caller may have let go of the others by then.
    """
    owner = instance.owner
    if _fits(owner, owner.base):
        return owner.base
    there = gradients_there(instance.leaves)
    if not there or _fits(owner, owner.base, there):
        return owner.base
    instance.finds_gradients = True
    if owner.zeroes >= TRUSTED:
        return owner.base
    try:
        return owner.adding
    except BudgetError:
        return owner.base


def begin_backward(instance: Instance) -> None:
    """Tells the user of a backward half that will take more than was planned when its forward half began.

    Raises:
        BudgetError: It adds its gradients to others, and no plan leaves room for them.
    """
    if instance.finds_gradients and not instance.runs_again:
        owner, adds = instance.owner, gradients_there(instance.leaves) > 0
        trusted = owner.zeroes >= TRUSTED
        if owner.zeroes != NEVER:
            owner.zeroes = 0 if adds else owner.zeroes + 1
        if adds and instance.variant is owner.base:
            owner.zeroes = NEVER if trusted else owner.zeroes
            takes = owner.accumulating(owner.base) + owner.base.schedule.handed
            missing = takes - owner.adding.schedule.budget
            warnings.warn(
                f"rk: {owner.name} adds its gradients to others, which it did not do in its last calls: "
                f"{missing} bytes of the budget of {owner.asked_alone[0]} may be missing in this one",
                stacklevel=2,
            )
    tell_twice(instance)


def tell_twice(instance: Instance) -> None:
    """Tells the user of a backward half that takes more than was planned when its forward half began: it
    keeps what it reads for another one, or is that other one and adds its gradients to those of the first.
    """
    keeps = torch._C._autograd._get_current_graph_task_keep_graph()
    owner, variant = instance.owner, instance.variant
    plan = variant.schedule
    # What has an arena runs backward once, and refuses another pass by itself.
    if plan.step is not None or not (keeps or instance.runs_again):
        return
    instance.runs_again = True
    adds = have_gradients(instance.leaves)
    takes = (owner.accumulating(variant) if adds else plan.backward) + plan.handed
    takes += plan.held if keeps else 0
    # What stands beside the halves is in the budget of the plan and in its peak.
    stands = plan.peak - max(plan.forward, plan.backward + plan.handed)
    missing = takes + stands - plan.budget
    if missing > 0:
        warnings.warn(
            f"rk: the backward pass of {owner.name} runs more than once for one forward pass "
            f"(retain_graph=True), and its plan counts on one: {missing} bytes of the budget of "
            f"{owner.asked_alone[0]} may be missing. One backward pass of the sum of the losses keeps it",
            stacklevel=2,
        )
