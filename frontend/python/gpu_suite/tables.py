"""``python -m gpu_suite.tables --page PAGE DIR...``: the tables of a page, written from measured rows.

What stands between ``<!-- smoke -->`` and ``<!-- /smoke -->`` is replaced, and so are the other chapters; the
rest of the page is left alone. Of several rows of one name the newest counts.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_suite import records

Line = dict[str, Any]
NONE = "–"
NOT_MEASURED = "not measured"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m gpu_suite.tables", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="where rows were written to")
    parser.add_argument("--page", type=Path, required=True, help="the page whose tables are replaced")
    given = parser.parse_args()
    lines = newest(line for folder in given.folders for line in records.read(folder))
    if not lines:
        sys.exit("gpu_suite.tables: error: no rows in these folders")
    given.page.write_text(replaced(given.page.read_text(), lines, expected()))


def newest(lines: Iterable[Line]) -> list[Line]:
    """One row of each name, the latest; rows of a rehearsal are none."""
    kept: dict[records.Key, Line] = {}
    for line in lines:
        before = kept.get(records.key_of(line))
        if not line.get("rehearsal") and (before is None or before["at"] <= line["at"]):
            kept[records.key_of(line)] = line
    return list(kept.values())


def expected() -> list[records.Key]:
    """Every row of the suite, in its order."""
    from gpu_suite.chapters import CHAPTERS

    return [row.key for chapter in CHAPTERS.values() for row in chapter.rows([])]


def replaced(page: str, lines: list[Line], keys: list[records.Key]) -> str:
    """The page with new tables."""
    for chapter, table in TABLES.items():
        marks = f"<!-- {chapter} -->", f"<!-- /{chapter} -->"
        if not all(page.count(mark) == 1 for mark in marks):
            raise ValueError(f"the page has no place for chapter {chapter}: {' ... '.join(marks)}")
        known = {records.key_of(line): line for line in lines if line["chapter"] == chapter}
        # What was measured and is not among the suite's rows comes last.
        order = dict.fromkeys([*(key for key in keys if key[0] == chapter), *known])
        rows = [(key, known.get(key)) for key in order]
        before, rest = page.split(marks[0])
        page = f"{before}{marks[0]}\n{table(rows)}{marks[1]}{rest.split(marks[1])[1]}"
    return page


Rows = list[tuple[records.Key, Line | None]]


def by_network(rows: Rows) -> dict[str, Rows]:
    """Networks in order, each with its rows in order."""
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(row[0][1], []).append(row)
    return found


def measured(rows: Rows) -> list[tuple[str, Line]]:
    """The rows that there are numbers or errors of."""
    return [(name, line) for (_, _, name), line in rows if line is not None]


def missing(rows: Rows) -> list[str]:
    """The names of the others, as one text if there are any."""
    names = [name for (_, _, name), line in rows if line is None]
    return ["; ".join(names)] if names else []


def smoke(rows: Rows) -> str:
    """Bits and bytes; times of rows that ran side by side say nothing."""
    titles = ["network", "row", "bits", "budget", "without gradients", "planned", "kept", "more"]
    body = []
    for model, some in by_network(rows).items():
        for name, line in measured(some):
            if "error" in line:
                body.append([model, name, failure(line), *[NONE] * 5])
            else:
                body.append([model, name, _bits(line), *_bytes(line), _kept(line), _more(line)])
        body += [[model, names, NOT_MEASURED, *[NONE] * 5] for names in missing(some)]
    return f"{origin(line for _, line in rows)}\n\n{_table(titles, body, text=(0, 1, 2, 7))}"


def _bits(line: Line) -> str:
    if "reproducible" in line:
        return "twice the same" if line["reproducible"] else "differ in two runs"
    if "bit_equal" in line:
        return "equal" if line["bit_equal"] else "**differ**"
    return "finite" if line.get("finite") else NONE


def _kept(line: Line) -> str:
    kept = line.get("within_budget")
    return NONE if kept is None else "yes" if kept else "**no**"


def _bytes(line: Line) -> list[str]:
    names = ("budget_bytes", "peak_without_gradients_bytes", "planned_peak_bytes")
    return [mebibytes(line.get(name)) for name in names]


def _more(line: Line) -> str:
    if "sum_ratio" in line:
        sums = f"{line['calls']} calls measured twice: sums {100 * (line['sum_ratio'] - 1):+.2f} % apart"
        apart = f"single calls {100 * line['apart_share']:.2f} %"
        return f"{sums}, {apart}; {line['unmeasured_calls']} cannot be measured"
    if "text" in line:
        return "; ".join(" ".join(part.split()) for part in line["text"].splitlines()[:3])
    return ""


def comparison(rows: Rows) -> str:
    """A table for each network; the ways that were not measured stand in it, too."""
    parts = []
    for model, some in by_network(rows).items():
        parts.append(f"### {model}\n")
        found = [line for _, line in some if line is not None]
        if not found:
            parts.append(f"{NOT_MEASURED.capitalize()}.\n")
            continue
        usual = Counter(map(_origin, found)).most_common(1)[0][0]
        parts.append(f"*{usual}.*\n")
        parts.append(_compared(some, usual))
    return "\n".join(parts)


def _compared(rows: Rows, usual: str) -> str:
    titles = ["way", "peak", "without gradients", "budget", "reserved", "step, ms", "least – most"]
    titles += ["/ eager", "/ compile", "first step, s", "planning, s", "predicted", "measured"]
    several = any(_origin(line) != usual for _, line in measured(rows))
    titles += ["measured on another"] if several else []
    known = {name: line for name, line in measured(rows) if "error" not in line}
    body = []
    for name, line in measured(rows):
        if "error" in line:
            body.append([name, failure(line), *[NONE] * (len(titles) - 2)])
        else:
            place = "" if _origin(line) == usual else _origin(line)
            body.append(_way(name, line, known) + ([place] if several else []))
    body += [[names, NOT_MEASURED, *[NONE] * (len(titles) - 2)] for names in missing(rows)]
    return _table(titles, body, text=(0,))


def _way(name: str, line: Line, known: dict[str, Line]) -> list[str]:
    peak = mebibytes(line["peak_bytes"])
    budget = mebibytes(line.get("budget_bytes"))
    if "device_budget_bytes" in line:
        budget = f"{mebibytes(line['device_budget_bytes'])} on the device"
        peak += f" ({mebibytes(line['on_device_bytes'])} on the device)"
    budget += " **exceeded**" if line.get("within_budget") is False else ""
    unplanned = known.get(f"{' '.join(name.split()[:2])} 100%") if name.startswith("rk ") else None
    return [
        name,
        peak,
        mebibytes(line.get("peak_without_gradients_bytes")),
        budget,
        mebibytes(line.get("peak_reserved_bytes")),
        f"{line['step_ms']:.2f}",
        f"{line['step_ms_least']:.2f} – {line['step_ms_most']:.2f}",
        _quotient(line, known.get("eager")),
        _quotient(line, known.get("compile")),
        f"{line['first_step_seconds']:.1f}",
        f"{line['planning_seconds']:.2f}" if "planning_seconds" in line else NONE,
        f"{line['overhead_predicted']:.1f} %" if "overhead_predicted" in line else NONE,
        _overhead(line, unplanned),
    ]


def _quotient(line: Line, other: Line | None) -> str:
    return f"{line['step_ms'] / other['step_ms']:.3f}" if _same_card(line, other) else NONE


def _overhead(line: Line, unplanned: Line | None) -> str:
    if not _same_card(line, unplanned) or line is unplanned:
        return NONE
    return f"{100 * (line['step_ms'] / unplanned['step_ms'] - 1):.1f} %"


def _same_card(line: Line, other: Line | None) -> bool:
    """Times of two cards are not set against each other."""
    return other is not None and line.get("card") == other.get("card")


def fits(rows: Rows) -> str:
    """What was trained under the cap, and the largest batches."""
    titles = ["network", "row", "budget", "on the device", "cap", "reserved", "steps", "largest batch"]
    body = []
    for model, some in by_network(rows).items():
        for name, line in measured(some):
            names = ("budget", "on_device", "cap", "peak_reserved")
            sizes = [mebibytes(line.get(f"{one}_bytes")) for one in names]
            sizes[1] += " **exceeded**" if line.get("within_budget") is False else ""
            counts = [str(line.get(one, NONE)) for one in ("steps_done", "batch")]
            why = [failure(line), *[NONE] * 5] if "error" in line else []
            body.append([model, name, *(why or [*sizes, *counts])])
        body += [[model, names, NOT_MEASURED, *[NONE] * 5] for names in missing(some)]
    return f"{origin(line for _, line in rows)}\n\n{_table(titles, body, text=(0, 1))}"


TABLES = {"smoke": smoke, "comparison": comparison, "fits": fits}


def failure(line: Line) -> str:
    """Why there is no number, short."""
    text = re.sub(r"\s+", " ", line["error"]).replace("|", "\\|")
    return f"none: {text if len(text) < 160 else text[:160] + ' …'}"


def _origin(line: Line) -> str:
    place = [line.get("card", "unknown card"), f"driver {line.get('driver', '?')}"]
    return ", ".join([*place, f"torch {line.get('torch', '?')}", f"commit {line['commit']}"])


def origin(lines: Iterable[Line | None]) -> str:
    """Where all of them come from; if from several places, all of those."""
    places = dict.fromkeys(_origin(line) for line in lines if line is not None)
    return f"*{'; '.join(places)}.*" if places else f"*{NOT_MEASURED.capitalize()}.*"


def mebibytes(count: int | None) -> str:
    """Bytes in MiB, so that networks of all sizes keep three digits."""
    if count is None:
        return NONE
    return f"{count / 2**20:.0f}" if count >= 100 * 2**20 else f"{count / 2**20:.1f}"


def _table(titles: list[str], body: list[list[str]], text: tuple[int, ...]) -> str:
    rule = ["---" if place in text else "---:" for place in range(len(titles))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (titles, rule, *body))


if __name__ == "__main__":
    main()
