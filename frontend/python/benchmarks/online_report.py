"""What ``python -m benchmarks.online`` measured: tables in Markdown, and time against peak as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.online import Cell

WIDTH, HEIGHT, COLUMNS, MARGIN = 380, 240, 2, 46
COLOURS = {"eager": "#222222", "online": "#0b62b5", "plan": "#b5483a"}
MOST = 4.0
"""Steps that take longer than so many of eager's are drawn at the upper edge."""


def _is_largest(cell: Cell) -> bool:
    return cell.asked.startswith("largest")


def _main(cells: Sequence[Cell]) -> list[Cell]:
    """Those of a model's own size: the ones that eager shares with a budget."""
    sizes = {(one.model, one.size) for one in cells if one.way != "eager" and not _is_largest(one)}
    return [one for one in cells if (one.model, one.size) in sizes and not _is_largest(one)]


def table(cells: Sequence[Cell]) -> str:
    """Every model at every budget."""
    lines = [
        "| model | size | way | budget | peak, MB | of eager | step, ms | of eager | recomputations | bits |",
        "|---|--:|---|---|--:|--:|--:|--:|--:|---|",
    ]
    base = {(one.model, one.size): one for one in cells if one.way == "eager"}
    for one in _main(cells):
        head = f"| {one.model} | {one.size} | {one.way} | {one.asked or '–'} | "
        if one.outcome != "ok":
            lines.append(f"{head}{one.outcome} | – | – | – | – | – |")
            continue
        share = one.peak / max(base[one.model, one.size].peak, 1)
        again = str(one.recomputations) if one.way == "online" else "–"
        bits = "–" if one.way == "eager" else "equal" if one.equal else "DIFFERENT"
        numbers = f"{one.peak / 1e6:.2f} | {share:.2f} | {one.seconds * 1e3:.1f} | {one.ratio:.2f}"
        lines.append(f"{head}{numbers} | {again} | {bits} |")
    return "\n".join(lines) + "\n"


def largest(cells: Sequence[Cell]) -> str:
    """The largest size that each way trains within a fixed budget."""
    lines = ["| model | budget | way | largest size | peak, MB | step, ms |", "|---|---|---|--:|--:|--:|"]
    asked = dict.fromkeys((one.model, one.asked, one.budget) for one in cells if _is_largest(one))
    for model, text, budget in asked:
        for way in COLOURS:
            mine = [one for one in cells if one.model == model and one.way == way and one.outcome == "ok"]
            if way == "eager":
                mine = [one for one in mine if one.peak <= budget]
            else:
                mine = [one for one in mine if one.asked == text]
            head = f"| {model} | {text.removeprefix('largest, ')} | {way} | "
            if mine:
                one = max(mine, key=lambda cell: cell.size)
                lines.append(f"{head}{one.size} | {one.peak / 1e6:.2f} | {one.seconds * 1e3:.1f} |")
            else:
                lines.append(f"{head}none | – | – |")
    return "\n".join(lines) + "\n" if asked else ""


def plot(cells: Sequence[Cell]) -> str:
    """A chart per model: the time of a step, of eager's, against the peak that was measured, of eager's."""
    shown = _main(cells)
    names = list(dict.fromkeys(one.model for one in shown))
    rows = -(-len(names) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT + 20}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for place, name in enumerate(names):
        x, y = WIDTH * (place % COLUMNS), HEIGHT * (place // COLUMNS)
        mine = [one for one in shown if one.model == name and one.outcome == "ok"]
        parts.append(f'<g transform="translate({x} {y})">{_chart(name, mine)}</g>')
    for place, (way, colour) in enumerate(COLOURS.items()):
        x, y = 60 + 100 * place, rows * HEIGHT + 8
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/><text x="{x + 8}" y="{y + 4}">{way}</text>'
        )
    return "".join(parts) + "</svg>\n"


def _chart(name: str, cells: Sequence[Cell]) -> str:
    base = next((one.peak for one in cells if one.way == "eager"), 1)
    wide, tall = WIDTH - MARGIN - 14, HEIGHT - MARGIN - 24

    def at(cell: Cell) -> tuple[float, float]:
        share, ratio = min(cell.peak / base, 1.2), min(cell.ratio, MOST)
        return MARGIN + wide * share / 1.2, 24 + tall * (1 - ratio / MOST)

    parts = [
        f'<text x="{MARGIN + wide / 2}" y="14" text-anchor="middle" font-weight="bold">'
        f"{html.escape(name)}</text>"
        f'<path d="M{MARGIN} 24V{24 + tall}H{MARGIN + wide}" fill="none" stroke="#222"/>'
    ]
    for part in range(5):
        y = 24 + tall * (1 - part / MOST)
        parts.append(f'<text x="{MARGIN - 5}" y="{y + 4:.1f}" text-anchor="end">{part}</text>')
    for percent in (0, 20, 40, 60, 80, 100, 120):
        x = MARGIN + wide * percent / 120
        parts.append(f'<text x="{x:.1f}" y="{24 + tall + 14}" text-anchor="middle">{percent}</text>')
    middle = 24 + tall / 2
    parts.append(
        f'<text x="{MARGIN + wide / 2}" y="{24 + tall + 30}" text-anchor="middle">peak, % of eager</text>'
        f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">step, times eager</text>'
    )
    for way, colour in COLOURS.items():
        points = [at(one) for one in sorted(cells, key=lambda one: one.peak) if one.way == way]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if len(points) > 1:
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
    return "".join(parts)
