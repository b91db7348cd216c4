"""``python -m benchmarks.performance``: measured steps of the networks of ``rk-bench performance``.

Each network of Rockmate's paper, as ``examples/repeated.py`` builds it, is trained by ``torch.compile`` with
rk and a share of its peak without recomputation. The steps are timed in turns with those of ``aot_eager``,
which runs the same kernels without a plan, so that what disturbs the machine disturbs both. Rows are kept as
soon as they are there, and a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rk._plan import measure
from rk._run import group
from rk.errors import BudgetError

NETWORKS = ("gpt2-24", "resnet101-128", "regnet_x_32gf-128", "mixer-12", "transformer")
BUDGETS = (100, 70, 50, 33, 20)
REPOSITORY = Path(__file__).parents[3]
_NUMBERS = "planned", "bound", "peak", "ratio"
MARKS = "<!-- measured -->", "<!-- /measured -->"


@dataclasses.dataclass(frozen=True)
class Row:
    """One network within one budget."""

    network: str
    budget: int
    """Percent of the peak without recomputation."""
    planned: float | None
    """Extra time by plan, in percent; None if no plan was found."""
    bound: float | None
    """No plan takes less, in percent."""
    peak: float | None
    """The measured peak, in percent of the budget."""
    ratio: float | None
    """The time of a step over that of ``aot_eager`` beside it, as the median of pairs."""
    why: str = ""
    """Why nothing was measured."""

    def line(self, whole: Row | None) -> str:
        """Of the table; ``whole`` is the row of the same network without recomputation."""
        if self.ratio is None:
            return f"| {self.network} | {self.budget} % | {self.why} | | | | |"
        measured = (
            "" if whole is None or whole.ratio is None else f"{100 * (self.ratio / whole.ratio - 1):.1f}"
        )
        return (
            f"| {self.network} | {self.budget} % | {self.planned:.1f} | {self.bound:.1f} | {measured} "
            f"| {self.ratio:.2f} | {self.peak:.1f} % |"
        )


def build(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A network in train mode, and its inputs."""
    sys.path.append(str(REPOSITORY / "examples"))
    try:
        import repeated
    finally:
        sys.path.pop()
    model, inputs = repeated.build(name)
    return model, tuple(inputs)


def measured(name: str, budgets: Sequence[int], rounds: int) -> Iterator[Row]:
    """The rows of a network, each as soon as it is there."""
    model, inputs = build(name)

    torch._dynamo.reset()

    def compiled(**backend: Any) -> tuple[Callable[[], torch.Tensor], nn.Module]:
        twin = copy.deepcopy(model)
        return measure.training_step(torch.compile(twin, dynamic=False, **backend), inputs), twin

    base = compiled(backend="aot_eager")
    try:
        _seconds(*base)
    except RuntimeError as error:
        why = f"`aot_eager`: {str(error).splitlines()[0][:60]}"
        yield from (Row(name, one, None, None, None, None, why) for one in budgets)
        return
    for budget in budgets:
        group.GROUPS.clear()
        step = compiled(backend="rk", options={"budget": f"{budget}%"})
        try:
            _seconds(*step)
        except Exception as error:
            if not isinstance(getattr(error, "inner_exception", error), BudgetError):
                raise
            yield Row(name, budget, None, None, None, None, "no plan")
            continue
        owners = [one for found in group.GROUPS.values() for one in found.classes]
        if len(owners) != 1:
            yield Row(name, budget, None, None, None, None, f"{len(owners)} graphs")
            continue
        plan = owners[0].base.schedule
        peak = 100 * measure.peak(*step) / plan.budget
        ratios = []
        for turn in range(rounds):
            # Neither is always the one that comes second.
            first, second = (step, base) if turn % 2 else (base, step)
            seconds = _seconds(*first), _seconds(*second)
            ratios.append(seconds[0] / seconds[1] if turn % 2 else seconds[1] / seconds[0])
        extra = [100 * (ticks / plan.base_time - 1) for ticks in (plan.time, plan.lower_bound)]
        yield Row(name, budget, *extra, peak, statistics.median(ratios))


def _seconds(step: Callable[[], torch.Tensor], model: nn.Module) -> float:
    """Processor seconds of a step that begins without gradients."""
    model.zero_grad(set_to_none=True)
    start = time.process_time()
    step()
    return time.process_time() - start


def read(path: Path) -> list[Row]:
    """The rows that a file has."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    number = lambda text: float(text) if text else None  # noqa: E731
    return [
        Row(one["network"], int(one["budget"]), *(number(one[key]) for key in _NUMBERS), one["why"])
        for one in found
    ]


def write(path: Path, rows: Sequence[Row]) -> None:
    """All rows, at once."""
    beside = path.with_suffix(".new")
    with beside.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([field.name for field in dataclasses.fields(Row)])
        out.writerows(dataclasses.astuple(row) for row in rows)
    beside.replace(path)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    whole = {row.network: row for row in rows if row.budget == 100}
    return "\n".join(
        [
            "| network | budget | planned % | bound % | measured % | step / aot_eager | peak of budget |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *(row.line(whole.get(row.network)) for row in rows),
        ]
    )


def insert(page: Path, text: str) -> None:
    """Puts a table between the marks of a page."""
    before, rest = page.read_text().split(MARKS[0])
    page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


def _place_in(wanted: Sequence[tuple[str, int]]) -> Callable[[Row], int]:
    return lambda row: wanted.index((row.network, row.budget))


def main() -> None:
    """Reads the command line; the table goes to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "networks", nargs="*", default=NETWORKS, metavar="NETWORK", help="of examples/repeated.py"
    )
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, metavar="PERCENT")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of steps that are timed")
    parser.add_argument(
        "--rows", type=Path, help="the file that keeps rows; what it has is not measured again"
    )
    parser.add_argument("--document", type=Path, help="the page that gets the table")
    given = parser.parse_args()
    if given.document is not None and not all(one in given.document.read_text() for one in MARKS):
        parser.error(f"{given.document} has no {MARKS[0]} and {MARKS[1]}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = [] if given.rows is None else read(given.rows)
    # Every budget compiles the network's code once more.
    torch._dynamo.config.recompile_limit = max(len(given.budgets) + 1, torch._dynamo.config.recompile_limit)
    wanted = [(name, budget) for name in given.networks for budget in given.budgets]
    for name in given.networks:
        there = [(row.network, row.budget) for row in rows]
        budgets = [budget for network, budget in wanted if network == name and (name, budget) not in there]
        start = time.monotonic()
        for row in measured(name, budgets, given.rounds) if budgets else ():
            rows.append(row)
            print(f"{row.line(None)} {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            if given.rows is not None:
                write(given.rows, rows)
    text = table(sorted((row for row in rows if (row.network, row.budget) in wanted), key=_place_in(wanted)))
    print(text)
    if given.document is not None:
        insert(given.document, text)


if __name__ == "__main__":
    main()
