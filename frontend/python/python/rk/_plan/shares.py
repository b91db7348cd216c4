"""What a share such as ``60%`` is one of, where the model has checkpoints of its own."""

from __future__ import annotations

import warnings

from rk._plan import checkpoints, schedule
from rk._plan.schedule import Problem

_TOLD: set[tuple[str, int, int]] = set()
"""What users have been told: the budget and both peaks."""


def budget_of(problem: Problem) -> str:
    """The budget that the options mean for a step: bytes, or a share of the peak without recomputation. Tells
    the user of the other peak, once, if there is one and the options do not say which is meant.
    """
    options = problem.options
    budget = schedule.budget_of(problem.step, options, problem.device)
    if not budget.endswith("%") or not checkpoints.are_in(problem.step):
        return budget
    share, whole, theirs = float(budget[:-1]), problem.base_peak(0), checkpointed_peak(problem)
    if options.share_of == "checkpoints":
        # Rounded down, as bytes are.
        return f"{int(share * theirs / whole * 1e6) / 1e6:.6f}%"
    if theirs < whole and (budget, whole, theirs) not in _TOLD:
        _TOLD.add((budget, whole, theirs))
        warnings.warn(
            f"rk: the budget of {budget} is {int(share * whole / 100)} bytes, a share of the {whole} that "
            f"this step takes without any recomputation. With the model's own checkpoints it takes {theirs}; "
            "share_of='checkpoints' makes the budget a share of that",
            stacklevel=2,
        )
    return budget


def checkpointed_peak(problem: Problem) -> int:
    """The peak when the model's own checkpoints are obeyed."""
    return problem.checkpointed_peak()
