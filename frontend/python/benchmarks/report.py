"""What ``python -m benchmarks`` measured, as a Markdown table and as a plot of time against peak."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.cells import Row

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 400, 60, 46
COLOURS = {"eager": "#222", "checkpoint": "#c60", "knob": "#c00", "rk": "#06c"}
OTHER = "#093"


ABOUT = """# rk beside PyTorch's own ways to save memory

`python -m benchmarks --threads 1 --cpu-time --json results.json --document docs/benchmarks-python.md`

The same model, each way in one process with eager: `torch.utils.checkpoint` around each block, PyTorch's
`activation_memory_budget` (*knob*), `torch.compile(model, backend="rk")` and the drop-in classes. *Peak* is
what the allocator handed out at most above what was there before a step that begins without gradients, so
the gradients are in it. *Step* is a median; *against eager* is the median of quotients, each of a step and
the eager step beside it. The machine has two x86-64 cores and no GPU, and other programs were using it,
too: so all run with one thread, and times are CPU seconds. Differences of a few percent are noise. *rk* is
asked for the peaks of the others; its setting is what it was asked for.

`llama` is a decoder of 12 layers from transformers (width 64, batch 2, 512 tokens).
"""

COMPILE_TIME = """## What rk adds to compiling

`python -m benchmarks --compile-time --json results.json --document docs/benchmarks-python.md`

Reading the joint graph, costs, passes, planning and writing the two graphs; Dynamo and AOTAutograd are not
counted. Each number is of a new process (median of several), GPT-2 with width 192, batch 4, 64 tokens, at
60 %. *AOTAutograd* is its own partitioner on the same graph, whose place rk takes.
"""


def document(results: Mapping[str, Sequence[Row]], compile_time: str) -> str:
    """The page: a table and a drawing per model, and what compiling takes."""
    parts = [ABOUT]
    for name, rows in results.items():
        parts += [table(name, rows), f"![{name}](benchmarks-python-{name}.svg)\n"]
    if compile_time:
        parts += [COMPILE_TIME, compile_time]
    return "\n".join(parts)


def table(name: str, rows: Sequence[Row]) -> str:
    """All rows by falling peak, and what they say about the knob."""
    lines = [
        f"## {name}",
        "",
        "| way | setting | peak, MB | step, ms | against eager |",
        "|---|---|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: -row.peak):
        more = 100 * (row.ratio - 1)
        cells = (row.way, row.setting, f"{row.peak / 1e6:.2f}", f"{row.seconds * 1e3:.1f}", f"{more:+.0f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", verdict(rows), ""])


def verdict(rows: Sequence[Row]) -> str:
    """How rk compares with the knob and with checkpoints at their own peaks, and how far below it gets."""
    told = [_against(one, rows) for one in rows if one.way in ("knob", "checkpoint")]
    knob = [row.peak for row in rows if row.way == "knob"]
    ours = [row.peak for row in rows if row.way == "rk"]
    if not knob or not ours:
        return ""
    lowest, least = min(knob), min(ours)
    return (
        f"At the peaks of the others: {'; '.join(told)}. Lowest peaks: {lowest / 1e6:.2f} MB by the knob, "
        f"{least / 1e6:.2f} MB by rk ({100 * least / lowest:.0f} %)."
    )


def _against(other: Row, rows: Sequence[Row]) -> str:
    """rk's fastest step within the peak of another way, beside that way's."""
    within = [row.ratio for row in rows if row.way == "rk" and row.peak <= other.peak]
    ours = 100 * min(within, default=float("nan"))
    return f"{other.way} {other.setting} takes {100 * other.ratio:.0f} % of eager's time, rk {ours:.0f} %"


def plot(name: str, rows: Sequence[Row]) -> str:
    """Step time, of eager's, against measured peak; ways with several settings are joined by a line."""
    most = 1.05 * max(row.peak for row in rows)
    longest = 1.1 * max(row.ratio for row in rows)

    def at(row: Row) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 10) * row.peak / most
        return x, 10 + (HEIGHT - BOTTOM - 10) * (1 - row.ratio / longest)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<path d="M{LEFT},10V{HEIGHT - BOTTOM}H{WIDTH - 10}" fill="none" stroke="#222"/>'
    ]
    for part in range(1, 5):
        x, y = LEFT + (WIDTH - LEFT - 10) * part / 4, 10 + (HEIGHT - BOTTOM - 10) * (1 - part / 4)
        size, duration = f"{most * part / 4e6:.0f} MB", f"{longest * part * 25:.0f} %"
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
    title = f"{html.escape(name)}: step time (of eager's) against peak"
    parts.append(f'<text x="{WIDTH - 10}" y="22" text-anchor="end">{title}</text></svg>')
    return "\n".join(parts) + "\n"
