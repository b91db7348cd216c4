"""A plan as one HTML page: memory over the step before and after by category, what holds the peak, time
against budget, modules, what runs again.

The page holds everything it needs and asks no network. Areas are SVG in units of microseconds and bytes, so
that zooming only changes what part is looked at, and the script beside them (page.html) stays short. A
library would be one more dependency of the wheel: plotly's brings some megabytes of script for every page,
and plotters draws pictures that stand still.
"""

from __future__ import annotations

import html
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rk._report import curve, timeline

if TYPE_CHECKING:
    from rk._plan.planning import Node, Plan
    from rk._report.timeline import Timeline

PAGE = Path(__file__).with_name("page.html")
COLOURS = {
    "saved": "#1f4e79",
    "recomputed": "#b5483a",
    "activations": "#6aa5d8",
    "gradients": "#e8b84a",
    "workspace": "#cfcfcf",
    "states": "#efefef",
}
"""From dark to light, so that they can be told apart in grey; the darkest is drawn at the bottom."""
MEANING = {
    "saved": "saved for backward",
    "recomputed": "made again",
    "activations": "activations of forward",
    "gradients": "gradients",
    "workspace": "workspace of kernels",
    "states": "states of generators",
}
SIDES = {"before": "As it is", "after": "As planned"}


def write(plan: Plan, path: Path, points: int) -> Path:
    """Writes the page, whole or not at all."""
    sides = dict(zip(SIDES, timeline.of(plan), strict=True))
    length = max(side.starts[-1] for side in sides.values()) * 1e6
    most = max(plan.budget, plan.peak, plan.base_peak, 1)
    parts = dict(
        summary=html.escape(str(plan)),
        numbers=_numbers(plan),
        key="".join(
            f'<span><i style="background:{COLOURS[one]}"></i>{MEANING[one]}</span>' for one in COLOURS
        ),
        charts="".join(_chart(plan, name, side, length, most) for name, side in sides.items()),
        holders=_holders(plan, sides["after"]),
        curve=curve.section(plan, points),
        modules=_modules(plan),
        again=_again(plan),
        data=_data(plan, sides, length, most),
    )
    text = re.sub(r"<!--(\w+)-->", lambda place: parts[place[1]], PAGE.read_text())
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells of text as a table."""

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
    return table(("", ""), rows)


def _chart(plan: Plan, name: str, side: Timeline, length: float, most: int) -> str:
    """Categories stacked over time, with the budget as a line. ``length`` is in microseconds."""
    from rk._plan.planning import readable

    starts, stacks = [one * 1e6 for one in side.starts], side.stacks()
    base, areas = [0] * len(side.runs), []
    for one, colour in COLOURS.items():
        top = [low + more for low, more in zip(base, stacks[one], strict=True)]
        areas.append(f'<path fill="{colour}" d="{_area(starts, base, top)}"/>')
        base = top
    line = f"M0 {plan.budget}H{length:.3f}"
    marks = "".join(
        f'<span class="mark" style="top:{100 - 100 * size / most:.2f}%">{text}</span>'
        for size, text in ((0, "0 B"), (plan.budget, f"budget {readable(plan.budget)}"))
    )
    return (
        f"<figure><figcaption>{SIDES[name]}: peak {readable(max(base))}</figcaption>"
        f'<div class="chart" data-side="{name}"><svg viewBox="0 0 {length:.3f} {most}" '
        f'preserveAspectRatio="none" role="img" aria-label="memory over the step, {SIDES[name].lower()}">'
        f'<g transform="matrix(1 0 0 -1 0 {most})">{"".join(areas)}<path d="{line}" stroke="#c00" '
        f'stroke-dasharray="5 4" fill="none" vector-effect="non-scaling-stroke"/></g></svg>{marks}</div>'
        f'<div class="axis"><span>0 ms</span><span>{length / 1e3:.2f} ms</span></div></figure>'
    )


def _area(starts: Sequence[float], low: Sequence[int], high: Sequence[int]) -> str:
    """A band of steps: along its upper edge, and back along the lower one."""
    there = "".join(f"V{size}H{end:.3f}" for size, end in zip(high, starts[1:], strict=True))
    back = "".join(f"V{size}H{begin:.3f}" for size, begin in zip(low[::-1], starts[-2::-1], strict=True))
    return f"M0 {low[0] if low else 0}{there}{back}Z"


def _holders(plan: Plan, planned: Timeline) -> str:
    from rk._plan.planning import readable

    run = planned.peak()
    node, size = planned.runs[run]
    there = planned.during(run)
    rows = [
        (
            life.name,
            plan.nodes[life.node].module,
            MEANING[life.category],
            readable(life.size),
            f"{life.first} to {life.last}",
        )
        for life in there[:15]
    ]
    rest = sum(life.size for life in there[15:])
    if rest:
        rows.append((f"and {len(there) - 15} more", "", "", readable(rest), ""))
    said = f"{plan.nodes[node].name} (run {run}) holds {readable(size)}; while it runs, there must be:"
    return f"<p>{html.escape(said)}</p>" + table(("value", "module", "why", "bytes", "runs"), rows)


def _modules(plan: Plan) -> str:
    """Nodes by module, forward and backward together; each module unfolds."""
    from rk._plan.planning import readable

    groups: dict[str, list[Node]] = {}
    for node in plan.nodes:
        groups.setdefault(_outer(node.module), []).append(node)
    parts = []
    for name, nodes in groups.items():
        seconds = sum(node.seconds for node in nodes)
        more = sum(node.seconds * (node.runs - 1) for node in nodes)
        again = f", {more * 1e3:.3f} ms more for what runs again" if more else ""
        head = f"{name or 'no module'}: {len(nodes)} nodes, {seconds * 1e3:.3f} ms{again}"
        rows = [
            (
                node.name,
                "backward" if node.backward else "forward",
                f"{node.seconds * 1e6:.0f} us",
                readable(node.output_bytes),
                readable(node.workspace_bytes),
                str(node.runs),
            )
            for node in nodes
        ]
        inside = table(("node", "pass", "time", "output", "workspace", "runs"), rows)
        parts.append(f"<details><summary>{html.escape(head)}</summary>{inside}</details>")
    return "".join(parts)


def _outer(module: str) -> str:
    """A module's path up to its first number, from which on modules repeat."""
    words = module.split(".")
    numbers = [place for place, word in enumerate(words) if word.isdecimal()]
    return ".".join(words[: numbers[0] + 1]) if numbers else module


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
    return table(("node", "runs", "extra time", "output", "operators"), rows)


def _data(plan: Plan, sides: dict[str, Timeline], length: float, most: int) -> str:
    """What the script reads; no text of a model can end it."""
    about = {
        "length": length,
        "most": most,
        "nodes": [{"name": node.name, "module": node.module} for node in plan.nodes],
        "sides": {
            name: {
                "starts": [round(one * 1e6, 3) for one in side.starts],
                "runs": side.runs,
                "lives": [
                    (one.name, one.size, one.node, one.first, one.last, MEANING[one.category])
                    for one in side.lives
                ],
            }
            for name, side in sides.items()
        },
    }
    return json.dumps(about).replace("<", "\\u003c")
