"""A plan as one HTML page: its numbers, memory over the step before and after, what runs again.

The page holds everything it needs; the curves are SVG.
"""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rk._plan.planning import Plan

WIDTH, HEIGHT, LEFT, BOTTOM = 960, 320, 70, 30
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>rk: a plan</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; color: #222 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .8em; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} tbody tr:nth-child(odd) {{ background: #f4f4f4 }}
svg text {{ font-size: 12px }} code {{ font-size: 13px }}
</style>
<h1>Plan of a training step</h1>
<p>{summary}</p>
<h2>Numbers</h2>{numbers}
<h2>Memory over the step</h2>{curve}
<h2>What runs again</h2>{again}
</html>
"""


def write(plan: Plan, path: Path) -> Path:
    """Writes the page, whole or not at all."""
    text = PAGE.format(
        summary=html.escape(str(plan)), numbers=_numbers(plan), curve=_curve(plan), again=_again(plan)
    )
    save(path, text.encode())
    return path


def save(path: Path, data: bytes) -> None:
    """Writes a file, whole or not at all."""
    handle, part = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _numbers(plan: Plan) -> str:
    from rk._plan.planning import readable

    proof = {"order_free": "for every order", "fixed_order": "for the given order", "optimal": "reached"}
    rows = [
        ("budget", readable(plan.budget)),
        ("peak of the plan", readable(plan.peak)),
        ("peak without recomputing", readable(plan.base_peak)),
        ("there before the step", readable(plan.resident)),
        ("time of the plan", f"{plan.seconds * 1e3:.2f} ms (+{plan.overhead:.1f} %)"),
        ("time without recomputing", f"{plan.base_seconds * 1e3:.2f} ms"),
        ("lower bound", f"+{plan.bound:.1f} % ({proof.get(plan.bound_kind, plan.bound_kind)})"),
        ("status", f"{plan.status}, by {plan.solver}"),
    ]
    return _table(("", ""), rows)


def _again(plan: Plan) -> str:
    from rk._plan.planning import readable

    rows = [
        (
            node.name,
            str(node.runs),
            f"{node.seconds * (node.runs - 1) * 1e6:.0f} us",
            readable(node.output_bytes),
            ", ".join(node.operators),
        )
        for node in plan.recomputed
    ]
    if not rows:
        return "<p>Nothing: the step fits as it is.</p>"
    return _table(("node", "runs", "extra time", "output", "operators"), rows)


def _curve(plan: Plan) -> str:
    """Memory against time, as two step curves, with the budget as a line."""
    from rk._plan.planning import readable

    most = max([plan.budget, *(size for _, size in (*plan.before, *plan.after))])
    length = max(sum(_seconds(plan, runs)) for runs in (plan.before, plan.after)) or 1.0

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT) * seconds / length

    def y(size: float) -> float:
        return 10 + (HEIGHT - BOTTOM - 10) * (1 - size / max(most, 1))

    def path(runs: Sequence[tuple[int, int]]) -> str:
        now, points = 0.0, []
        for (_, size), seconds in zip(runs, _seconds(plan, runs), strict=True):
            points.append(f"{x(now):.1f},{y(size):.1f} {x(now + seconds):.1f},{y(size):.1f}")
            now += seconds
        return " ".join(points)

    def line(size: float, label: str, colour: str) -> str:
        at = y(size)
        return (
            f'<line x1="{LEFT}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="{colour}" '
            f'stroke-dasharray="4 3"/><text x="{LEFT - 4}" y="{at + 4:.1f}" text-anchor="end" '
            f'fill="{colour}">{html.escape(label)}</text>'
        )

    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="memory over the step">'
        f'<polyline points="{path(plan.before)}" fill="none" stroke="#999" stroke-width="1.2"/>'
        f'<polyline points="{path(plan.after)}" fill="none" stroke="#06c" stroke-width="1.5"/>'
        + line(plan.budget, readable(plan.budget), "#c00")
        + line(0, "0", "#222")
        + f'<text x="{LEFT}" y="{HEIGHT - 8}">time; grey: {readable(plan.base_peak)} without recomputing, '
        f"blue: {readable(plan.peak)} as planned, red: the budget</text>"
        f'<text x="{WIDTH}" y="{HEIGHT - 8}" text-anchor="end">{length * 1e3:.1f} ms</text></svg>'
    )


def _seconds(plan: Plan, runs: Sequence[tuple[int, int]]) -> list[float]:
    return [max(plan.nodes[node].seconds, 1e-9) for node, _ in runs]
