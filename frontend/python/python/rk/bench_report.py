"""What ``python -m rk.bench`` measured, as a Markdown table and as a plot of time against peak."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rk.bench import Row

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 400, 60, 46
COLOURS = {"eager": "#222", "checkpoint": "#c60", "knob": "#c00", "rk": "#06c"}
OTHER = "#093"


ABOUT = """# rk beside PyTorch's own ways to save memory

`python -m rk.bench --json results.json --document docs/benchmarks-python.md`

The same model in the same process: eager, `torch.utils.checkpoint` around each block, PyTorch's
`activation_memory_budget` (*knob*), `torch.compile(model, backend="rk")` and the drop-in classes. *Peak* is
what the allocator handed out at most above what was there before a step that begins without gradients, so
the gradients are in it. *Step* is the median over rounds in which every way runs once. The machine has two
shared x86-64 cores and no GPU; differences of a few percent are noise. *rk* is asked for the peaks of the
others; its setting is what it was asked for.

`llama` is a decoder of 12 layers from transformers (width 64, batch 2, 512 tokens); `resnet18` is
torchvision's (batch 8, 64 x 64 pixels).
"""


def document(results: Mapping[str, Sequence[Row]]) -> str:
    """The page: a table and a drawing per model."""
    parts = [ABOUT]
    for name, rows in results.items():
        parts += [table(name, rows), f"![{name}](benchmarks-python-{name}.svg)\n"]
    return "\n".join(parts)


def table(name: str, rows: Sequence[Row]) -> str:
    """All rows by falling peak, and what they say about the knob."""
    eager = next(row for row in rows if row.way == "eager")
    lines = [
        f"## {name}",
        "",
        "| way | setting | peak, MB | step, ms | against eager |",
        "|---|---|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: -row.peak):
        more = 100 * (row.seconds / eager.seconds - 1)
        cells = (row.way, row.setting, f"{row.peak / 1e6:.2f}", f"{row.seconds * 1e3:.1f}", f"{more:+.0f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", verdict(rows), ""])


def verdict(rows: Sequence[Row]) -> str:
    """At how many of the knob's peaks rk is at least as fast, and how far below them it gets."""
    knob = [row for row in rows if row.way == "knob"]
    ours = [row for row in rows if row.way == "rk"]
    if not knob or not ours:
        return ""
    within = [
        (one, min((row for row in ours if row.peak <= one.peak), key=lambda row: row.seconds, default=None))
        for one in knob
    ]
    faster = sum(best is not None and best.seconds <= one.seconds for one, best in within)
    lowest, least = min(one.peak for one in knob), min(row.peak for row in ours)
    return (
        f"Within {faster} of the {len(knob)} peaks that the knob reaches rk is at least as fast. Lowest "
        f"peaks: {lowest / 1e6:.2f} MB by the knob, {least / 1e6:.2f} MB by rk "
        f"({100 * least / lowest:.0f} %)."
    )


def plot(name: str, rows: Sequence[Row]) -> str:
    """Step time against measured peak; ways with several settings are joined by a line."""
    most = 1.05 * max(row.peak for row in rows)
    longest = 1.1 * max(row.seconds for row in rows)

    def at(row: Row) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 10) * row.peak / most
        return x, 10 + (HEIGHT - BOTTOM - 10) * (1 - row.seconds / longest)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<path d="M{LEFT},10V{HEIGHT - BOTTOM}H{WIDTH - 10}" fill="none" stroke="#222"/>'
    ]
    for part in range(1, 5):
        x, y = LEFT + (WIDTH - LEFT - 10) * part / 4, 10 + (HEIGHT - BOTTOM - 10) * (1 - part / 4)
        size, duration = f"{most * part / 4e6:.0f} MB", f"{longest * part * 250:.0f} ms"
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="end">{size}</text>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.0f}" text-anchor="end">{duration}</text>')
    for index, way in enumerate(dict.fromkeys(row.way for row in rows)):
        colour = COLOURS.get(way, OTHER)
        points = [
            at(row) for row in sorted((one for one in rows if one.way == way), key=lambda one: one.peak)
        ]
        if way in ("knob", "rk"):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points)
        place = LEFT + 10 + index * 110
        parts.append(f'<circle cx="{place}" cy="{HEIGHT - 12}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{place + 8}" y="{HEIGHT - 8}">{html.escape(way)}</text>')
    title = f"{html.escape(name)}: step time against peak"
    parts.append(f'<text x="{WIDTH - 10}" y="22" text-anchor="end">{title}</text></svg>')
    return "\n".join(parts) + "\n"
