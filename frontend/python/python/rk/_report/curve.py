"""Time against budget: what other budgets would cost, the proven bound, and the smallest budget."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import TYPE_CHECKING

from rk import _rk
from rk.errors import BudgetError

if TYPE_CHECKING:
    from rk._plan.planning import Plan

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960, 300, 70, 40, 14


@dataclasses.dataclass(frozen=True)
class Point:
    """One budget, planned."""

    budget: int
    overhead: float
    """Extra time, in percent."""
    bound: float
    """No plan takes less."""


def points(plan: Plan, count: int) -> list[Point]:
    """The smallest budget that was found, the peak as it is, budgets between them, and the plan's own."""
    own = Point(plan.budget, plan.overhead, plan.bound)
    if count <= 0:
        return [own]
    smallest = _smallest(plan)
    step = (plan.base_peak - smallest) / max(count - 1, 1)
    asked = {int(smallest + step * place) for place in range(count)} | {plan.base_peak}
    found = [_planned(plan, budget) for budget in sorted(asked)]
    there = [one for one in found if one is not None and one.budget != own.budget]
    return sorted([*there, own], key=lambda one: one.budget)


def _smallest(plan: Plan) -> int:
    answer = json.loads(_rk.rematerialize(plan.stages["costed"], budget="1", time_limit="500ms"))
    return min(answer["unmet"]["smallest"], plan.budget) if "unmet" in answer else plan.budget


def _planned(plan: Plan, budget: int) -> Point | None:
    try:
        text = _rk.rematerialize(plan.stages["costed"], budget=str(budget), time_limit="500ms")
    except BudgetError:
        return None
    answer = json.loads(text)
    if "unmet" in answer:
        return None
    base = max(answer["base_time"], 1)
    overhead = 100 * (answer["time"] / base - 1)
    return Point(budget, overhead, min(100 * (answer["lower_bound"] / base - 1), overhead))


def section(plan: Plan, count: int) -> str:
    """The curve as a picture and as a table."""
    from rk._plan.planning import readable
    from rk._report.report import table

    found = points(plan, count)
    rows = [
        (
            readable(one.budget) + (" (this plan)" if one.budget == plan.budget else ""),
            f"{100 * one.budget / max(plan.base_peak, 1):.0f} %",
            f"+{one.overhead:.2f} %",
            f"+{one.bound:.2f} %",
        )
        for one in found
    ]
    head = ("budget", "of the peak", "extra time", "proven bound")
    said = f"<p>The smallest budget with a plan is {readable(found[0].budget)}.</p>" if count > 0 else ""
    return said + _picture(plan, found) + table(head, rows)


def _picture(plan: Plan, found: list[Point]) -> str:
    from rk._plan.planning import readable

    low, high = found[0].budget, max(found[-1].budget, found[0].budget + 1)
    most = max(1.0, *(one.overhead for one in found))

    def at(budget: float, percent: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 20) * (budget - low) / (high - low)
        return x, TOP + (HEIGHT - BOTTOM - TOP) * (1 - percent / most)

    def line(values: list[tuple[int, float]], style: str) -> str:
        path = " ".join("{:.1f},{:.1f}".format(*at(*value)) for value in values)
        return f'<polyline points="{path}" fill="none" {style}/>'

    dots = ""
    for one in found:
        x, y = at(one.budget, one.overhead)
        size = 7 if one.budget == plan.budget else 4
        told = f"{readable(one.budget)}: +{one.overhead:.2f} %, at least +{one.bound:.2f} %"
        dots += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{html.escape(told)}</title></circle>'
    base = HEIGHT - BOTTOM
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="extra time against budget" '
        'font-size="12">'
        + line([(low, 0), (high, 0)], 'stroke="#222"')
        + line([(one.budget, one.bound) for one in found], 'stroke="#888" stroke-dasharray="5 4"')
        + line([(one.budget, one.overhead) for one in found], 'stroke="#1f4e79" stroke-width="2"')
        + f'<g fill="#1f4e79">{dots}</g>'
        + f'<text x="{LEFT - 6}" y="{TOP + 4}" text-anchor="end">+{most:.1f} %</text>'
        + f'<text x="{LEFT - 6}" y="{base + 4}" text-anchor="end">0 %</text>'
        + f'<text x="{LEFT}" y="{base + 18}">{readable(low)}</text>'
        + f'<text x="{WIDTH - 20}" y="{base + 18}" text-anchor="end">{readable(high)}</text>'
        + f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">budget; line: extra time of plans, '
        "dashed: proven bound, large dot: this plan</text></svg>"
    )
