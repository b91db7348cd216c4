"""What ``python -m benchmarks.online`` measured: tables in Markdown, and time against peak as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.drawing import Drawing

if TYPE_CHECKING:
    from benchmarks.online import Cell

WIDTH, HEIGHT, COLUMNS, MARGIN = 380, 240, 2, 46
WAYS = {"eager": ("#222222", "square"), "online": ("#0b62b5", "circle"), "plan": ("#e08a5a", "triangle")}
"""Colours and marks; none of the three greys is near another."""
MOST, WIDEST = 8, 1.2
"""Steps that take longer, and peaks that are larger, of eager's, are drawn at the edge."""


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
        for way in WAYS:
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


def plot(cells: Sequence[Cell]) -> Drawing:
    """A chart per model: the time of a step, of eager's, against the peak that was measured, of eager's."""
    shown = _main(cells)
    names = list(dict.fromkeys(one.model for one in shown))
    rows = -(-len(names) // COLUMNS)
    drawing = Drawing(COLUMNS * WIDTH, rows * HEIGHT + 22)
    for place, name in enumerate(names):
        corner = WIDTH * (place % COLUMNS), HEIGHT * (place // COLUMNS)
        mine = [one for one in shown if one.model == name and one.outcome == "ok"]
        _chart(drawing, corner, f"{name}, size {mine[0].size}" if mine else name, mine)
    for place, (way, (colour, form)) in enumerate(WAYS.items()):
        x, y = 60 + 100 * place, rows * HEIGHT + 8
        drawing.mark((x, y), form, colour)
        drawing.words((x + 9, y + 4), way)
    return drawing


def _chart(drawing: Drawing, corner: tuple[int, int], title: str, cells: Sequence[Cell]) -> None:
    base = next((one.peak for one in cells if one.way == "eager"), 1)
    most = min(max([2, *(math.ceil(one.ratio) for one in cells)]), MOST)
    left, top = corner[0] + MARGIN, corner[1] + 24
    wide, tall = WIDTH - MARGIN - 14, HEIGHT - MARGIN - 24

    def at(share: float, ratio: float) -> tuple[float, float]:
        return left + wide * min(share, WIDEST) / WIDEST, top + tall * (1 - min(ratio, most) / most)

    drawing.words((left + wide / 2, top - 10), title, "middle", 13)
    drawing.line([at(0, most), at(0, 0), at(WIDEST, 0)])
    for ratio in range(most + 1):
        x, y = at(0, ratio)
        drawing.line([(x - 3, y), (x, y)])
        drawing.words((x - 6, y + 4), str(ratio), "end")
    for percent in range(0, round(100 * WIDEST) + 1, 20):
        x, y = at(percent / 100, 0)
        drawing.line([(x, y), (x, y + 3)])
        drawing.words((x, y + 15), str(percent), "middle")
    drawing.words((left + wide / 2, top + tall + 30), "peak, % of eager's", "middle")
    longer = any(one.ratio > most for one in cells)
    label = f"step, times eager's{f', up to {most}' if longer else ''}"
    drawing.words((corner[0] + 16, top + tall / 2), label, "middle", upwards=True)
    for way, (colour, form) in WAYS.items():
        mine = sorted((one for one in cells if one.way == way), key=lambda one: one.peak)
        points = [at(one.peak / base, one.ratio) for one in mine]
        if len(points) > 1:
            drawing.line(points, colour, 1.5)
        for point in points:
            drawing.mark(point, form, colour)
