"""The smallest budgets that errors name: each does, because the plan that was found for it is kept.

Another search might miss what one search has found. So whoever asks for exactly the budget that an error
named gets the plan by which it was named.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

from rk._plan import cache, ranks
from rk.errors import BudgetError

_KEPT: dict[str, dict] = {}
"""The plans of this process, by name, where the cache cannot be written."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The place of a plan for one such budget."""

    name: str
    """The name that it has on disk."""
    shared: ranks.Name
    """The name that it has among the ranks of a distributed run."""
    folder: Path
    """Where plans are kept."""

    def keep(self, answer: dict) -> None:
        """Keeps the planner's answer for whoever asks."""
        _KEPT[self.name] = ranks.offer(self.shared, answer)
        cache.write(self.folder, self.name, _KEPT[self.name])

    def find(self) -> dict | None:
        """The answer that was kept."""
        return _KEPT.get(self.name) or cache.read(self.folder, self.name) or ranks.read(self.shared)


def tell(answer: dict) -> None:
    """Warns of a plan, made now or kept on disk, for another budget than the one that was asked for."""
    if "unmet" in answer:
        warnings.warn(f"rk: {answer['unmet']} (on_infeasible='best')", stacklevel=3)


def error(about: dict) -> BudgetError:
    """The error that says what a planner says of a budget that cannot be met."""
    made = BudgetError(about["message"])
    made.budget_bytes, made.smallest_bytes = about["budget"], about["smallest"]
    made.lower_bound_bytes, made.holder = about["impossible_below"], about["holder"]
    return made
