"""A plan as one HTML page: memory over the step before and after by category, what holds the peak, time
against budget, modules, what runs again. The page is made in Rust (passes/report), where rk-plan and
rk-translate make the same one. So is the page of the steps of a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rk import _rk
from rk._plan.files import save
from rk.errors import OptionError

if TYPE_CHECKING:
    from rk._plan.planning import Plan


def write(plan: Plan, path: Path, points: int) -> Path:
    """Writes the page, whole or not at all."""
    if not isinstance(points, int) or not 0 <= points <= 1000:
        raise OptionError(f"points={points!r} must be a whole number from 0 to 1000")
    save(path, _rk.report(plan.stages["scheduled"], points).encode())
    return path


def write_calls(steps: list[dict[str, Any]], path: Path) -> Path:
    """Writes the page of the steps of a run (:func:`rk._report.calls.steps`), whole or not at all."""
    save(path, _rk.calls_report(steps).encode())
    return path
