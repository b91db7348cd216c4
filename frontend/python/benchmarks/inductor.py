"""``python -m benchmarks.inductor``: plans on Inductor's kernels beside Inductor alone.

Networks of many kinds, each without a budget and within shares of the peak that ``torch.compile`` alone
takes. Every cell is a process of its own: what is planned, what Inductor's code adds up to before a kernel is
compiled, and what the allocator counts in the first step and in a later one; whether loss, gradients and
buffers have the default's bits; what the plan predicts, and what steps and compiling take beside the default.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.small_models import MODELS

if TYPE_CHECKING:
    from benchmarks.inductor_cell import Cell

WAYS = ("default", "none", "80", "60", "40")
HEAD = (
    "network",
    "budget",
    "planned, kB",
    "replayed",
    "first step",
    "later step",
    "of budget",
    "bits",
    "predicted",
    "step",
    "compiling, CPU s",
    "remark",
)
ABOUT = """# Inductor's kernels, planned

```
cd frontend/python && python -m benchmarks.inductor --json results.json --document docs/benchmarks-inductor.md
```

The networks are those of `benchmarks/small_models.py`: two layers or a few blocks of each kind, fp32 unless
named otherwise, the loss inside of the graph or outside. *Budget* is a share of the peak of
`torch.compile(model)` (row *default*), gradients of parameters left out. *Planned* is what the runs of the
plan are expected to take, *replayed* what Inductor's code adds up to before a kernel is compiled, *first* and
*later step* what the allocator counted, *of budget* the larger of the two over the budget. *Bits* compares
loss, gradients and running statistics with the default's. *Predicted* is the plan's extra time, *step* the
median of quotients with default steps that ran in turns, *compiling* CPU seconds up to the end of the first
step, with the compilers: *default* and *none* begin with empty caches, the others find the kernels of *none*.
The machine has two x86-64 cores and no GPU, and other programs were using it; one thread.

The plan assumes that the caller holds what the graph returns until backward is done. Of `llama` and `gpt2`
the loss is computed outside, and lets go of the result: 65,536 bytes, by which both steps are below the plan.

"""


class Cells:
    """What was measured, kept in a file after every cell."""

    def __init__(self, path: Path | None) -> None:
        """Reads what the file has."""
        self.path = path
        self.found: list[dict[str, object]] = []
        if path is not None and path.exists():
            self.found = json.loads(path.read_text())

    def measured(self, model: str, ways: Sequence[str], rounds: int) -> None:
        """Completes the cells of a network."""
        folder = Path(tempfile.mkdtemp(prefix="rk-benchmark-"))
        whole = 0
        for way in ("default", *(one for one in ways if one != "default")):
            known = next((one for one in self.found if (one["model"], one["way"]) == (model, way)), None)
            if known is None or way == "default":
                cell = self._measured(model, way, whole, rounds, folder)
                if known is not None:
                    self.found.remove(known)
                self.found.append(cell)
                print(json.dumps(cell), file=sys.stderr, flush=True)
                if self.path is not None:
                    self.path.write_text(json.dumps(self.found, indent=1))
            if way == "default":
                whole = int(self.found[-1]["later"])

    @staticmethod
    def _measured(model: str, way: str, whole: int, rounds: int, folder: Path) -> dict[str, object]:
        caches = {
            "RK_CACHE_DIR": str(folder / "rk"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / ("default" if way == "default" else "planned")),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        arguments = (model, way, str(whole), str(rounds), str(folder))
        command = [sys.executable, "-m", "benchmarks.inductor_cell", *arguments]
        done = subprocess.run(command, env={**os.environ, **caches}, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            said = f"the process ended with {done.returncode}"
            return {"model": model, "way": way, "later": 0, "said": said}
        return json.loads(done.stdout.splitlines()[-1])


def table(cells: Iterable[dict[str, object]]) -> str:
    """All cells, as Markdown."""
    from benchmarks.inductor_cell import Cell

    known = {field.name for field in dataclasses.fields(Cell)}
    lines = [f"| {' | '.join(HEAD)} |", f"|---|{'---:|' * (len(HEAD) - 2)}---|"]
    lines += [_line(Cell(**{name: one for name, one in row.items() if name in known})) for row in cells]
    return "\n".join([*lines, ""])


def _line(cell: Cell) -> str:
    def kilobytes(size: int) -> str:
        return f"{size / 1000:.1f}" if size else ""

    percent = cell.way.isdigit()
    cells = [
        cell.model,
        f"{cell.way} %" if percent else cell.way,
        *map(kilobytes, (cell.planned, cell.replayed, cell.first, cell.later)),
        f"{100 * max(cell.first, cell.later) / cell.budget:.2f} %" if percent and cell.later else "",
        cell.bits,
        f"{cell.overhead:.1f} %" if cell.planned else "",
        f"{cell.step:.3f}" if cell.step else "",
        f"{cell.compiling:.1f}" if cell.compiling else "",
        cell.said.replace("|", "/").replace("\n", " "),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inductor", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--ways", default=",".join(WAYS), help="percent of the default's peak, or none")
    parser.add_argument("--rounds", type=int, default=11, help="pairs of steps that are timed")
    parser.add_argument("--json", type=Path, help="all cells; what is in it already is not measured again")
    parser.add_argument("--document", type=Path, help="the page to write")
    given = parser.parse_args()
    cells = Cells(given.json)
    for name in given.models:
        cells.measured(name, given.ways.split(","), given.rounds)
    text = table(cells.found)
    print(text)
    if given.document is not None:
        given.document.write_text(ABOUT + text)


if __name__ == "__main__":
    main()
