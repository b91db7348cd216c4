"""``python -m benchmarks.online``: what DTR's authors measured of their prototype, with rk.

Steps of seven networks under budgets that are shares of eager's peak or fixed, by the online runtime
(``rk.memory_budget``) and by a plan (``torch.compile``), against eager; and the largest input that trains
within a fixed budget. Models, sizes, shares and budgets stand in a file (``online.json`` beside this one).
Peaks are the allocator's, gradients of parameters included. Bits that differ, or a plan's peak above its
budget, end with exit code 1. With ``--json`` every cell is kept as soon as it
is there, and a run that was interrupted goes on: on the same machine, with the same torch, threads and steps.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rk
from benchmarks import online_report
from benchmarks.dynamic_models import MODELS
from rk import _rk
from rk._plan import measure

WAYS = ("eager", "online", "plan")
SECONDS = 3.5
"""What a cell of the default configuration takes in the mean, of one core."""
HALVINGS = 5
"""So often a search for the largest size halves what is between sizes that fit and that do not."""


@dataclasses.dataclass
class Cell:
    """One way to run a step of one model at one size, within a budget."""

    model: str
    size: int
    way: str
    asked: str
    """A share of eager's peak, a budget, or ``largest`` with one; empty for eager."""
    budget: int
    outcome: str
    """``ok``, or the kind of error."""
    peak: int = 0
    seconds: float = 0.0
    """Median of a step."""
    ratio: float = 0.0
    """Of eager's median in the same process."""
    recomputations: int = 0
    """Of one step."""
    equal: bool = True
    """Whether all gradients have the bits of eager's."""

    @property
    def is_kept(self) -> bool:
        """Whether it has eager's bits, and a plan its budget; online, the outputs of one operator come on top
        of a budget.
        """
        return self.equal and (self.way != "plan" or self.peak <= self.budget)


class Model:
    """One network at one size, and what eager takes."""

    def __init__(self, name: str, size: int, steps: int) -> None:
        """Runs eager once; everything is compared with that."""
        self.name, self.size, self.steps = name, size, steps
        torch.manual_seed(0)
        self.module, self.sample = MODELS[name](size)
        self.args = self.sample if isinstance(self.sample, tuple) else (self.sample,)
        self.gradients = sum(one.nbytes for one in self.module.parameters())
        self.state = {key: value.clone() for key, value in self.module.state_dict().items()}
        self.eager = self.cell("eager", "", 0, self.module)
        self.wanted = self.bits()

    def bits(self) -> list[torch.Tensor]:
        """The gradients of the last step."""
        return [one.grad.clone() for one in self.module.parameters() if one.grad is not None]

    def step(self, run: Callable[..., torch.Tensor], context: Any) -> None:
        """One training step from the same state."""
        self.module.load_state_dict(self.state)
        self.module.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        with context or torch.enable_grad():
            run(*self.args).backward()

    def cell(
        self, way: str, asked: str, budget: int, run: Callable[..., torch.Tensor], context: Any = None
    ) -> Cell:
        """Warms up, times some steps, and measures one."""
        seconds = []
        for turn in range(self.steps + 1):
            start = time.perf_counter()
            self.step(run, context)
            seconds.append(time.perf_counter() - start)
            if turn == 0:
                before = context.statistics()["recomputations"] if context else 0
        again = (context.statistics()["recomputations"] - before) // self.steps if context else 0
        self.module.zero_grad(set_to_none=True)
        with measure.memory(torch.device("cpu")) as measured:
            self.step(run, context)
        took = statistics.median(seconds[1:])
        if way == "eager":
            return Cell(self.name, self.size, way, asked, budget, "ok", measured.peak, took, 1.0)
        equal = all(map(torch.equal, self.bits(), self.wanted))
        ratio = took / self.eager.seconds
        return Cell(self.name, self.size, way, asked, budget, "ok", measured.peak, took, ratio, again, equal)

    def within(self, way: str, asked: str, budget: int, log: Path | None = None) -> Cell:
        """A cell of rk; an error that says that the budget cannot be met is one, too."""
        try:
            if way == "online":
                context = rk.memory_budget(budget, **({"log": log} if log else {}))
                return self.cell(way, asked, budget, self.module, context)
            torch._dynamo.reset()
            options = {"budget": max(budget - self.gradients, 1), "time_limit": 2.0}
            run = torch.compile(self.module, backend="rk", dynamic=False, options=options)
            return self.cell(way, asked, budget, run)
        except Exception as error:  # noqa: BLE001 - a way that fails is a result, too
            cause = getattr(error, "inner_exception", error)
            print(f"{self.name} {way} {asked}: {str(cause)[:160]}", file=sys.stderr, flush=True)
            return Cell(self.name, self.size, way, asked, budget, type(cause).__name__)


class Study:
    """All cells of a configuration."""

    def __init__(self, config: dict[str, Any], path: Path | None, logs: Path | None) -> None:
        """Goes on with the cells of a file."""
        self.config, self.path, self.logs = config, path, logs
        self.made = {
            "machine": machine(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "steps": config["steps"],
        }
        self.kept = self.made
        """How the cells of the file were made."""
        self.cells: list[Cell] = []
        if path is not None and path.exists():
            try:
                kept = json.loads(path.read_text())
                self.kept, self.cells = kept["made"], [Cell(**one) for one in kept["cells"]]
            except (OSError, ValueError, TypeError, KeyError) as error:
                text = f"online: {path} holds no cells of this program: {type(error).__name__}: {error}"
                raise SystemExit(text) from None
        self.known: dict[tuple[str, int], Model] = {}

    def model(self, name: str, size: int) -> Model:
        """Made once, and only if a cell of it is missing."""
        if (name, size) not in self.known:
            if self.kept != self.made:
                had, now = (
                    ", ".join(f"{key} {one}" for key, one in of.items()) for of in (self.kept, self.made)
                )
                raise SystemExit(
                    f"online: {self.path} is of {had}, not of {now}: name another file with --json"
                )
            self.known = {(name, size): Model(name, size, self.config["steps"])}
        return self.known[name, size]

    def find(self, name: str, size: int, way: str, asked: str) -> Cell | None:
        """A cell that is there already."""
        key = (name, size, way, asked)
        return next((one for one in self.cells if (one.model, one.size, one.way, one.asked) == key), None)

    def keep(self, cell: Cell) -> Cell:
        """Adds a cell, and writes all of them."""
        self.cells.append(cell)
        if self.path is not None:
            cells = [dataclasses.asdict(one) for one in self.cells]
            # It is whole at any time.
            part = self.path.with_name(f".{self.path.name}.part")
            part.write_text(json.dumps({"made": self.made, "cells": cells}, indent=1))
            os.replace(part, self.path)
        told = f"{cell.model} {cell.size} {cell.way} {cell.asked}: {cell.outcome}"
        print(f"{told}, {cell.peak / 1e6:.2f} MB, {cell.ratio:.2f} of eager", file=sys.stderr, flush=True)
        return cell

    def eager(self, name: str, size: int) -> Cell:
        """What eager takes."""
        return self.find(name, size, "eager", "") or self.keep(self.model(name, size).eager)

    def rk(self, name: str, size: int, way: str, asked: str, budget: int) -> Cell:
        """A cell of rk."""
        found = self.find(name, size, way, asked)
        return found or self.keep(self.model(name, size).within(way, asked, budget))

    def budgets(self, name: str) -> None:
        """Shares of eager's peak, and fixed budgets."""
        about = self.config["models"][name]
        size = about["size"]
        eager = self.eager(name, size)
        asked = {f"{100 * one:.0f} %": int(one * eager.peak) for one in self.config["ratios"]}
        asked |= {text: _rk.budget_bytes(text) for text in about.get("budgets", [])}
        for way in WAYS[1:]:
            for text, budget in asked.items():
                self.rk(name, size, way, text, budget)
        if self.logs is not None:
            self.logs.mkdir(parents=True, exist_ok=True)
            log = self.logs / f"{name}-{size}.log"
            if not log.exists():
                self.model(name, size).within("online", "log", 4 * eager.peak, log)

    def largest(self, name: str) -> None:
        """The largest size that trains within a budget, by each way: doubled, then halved between."""
        about = self.config["models"][name].get("largest")
        if about is None:
            return
        budget = _rk.budget_bytes(about["budget"])
        asked = f"largest, {about['budget']}"

        def fits(way: str, size: int) -> bool:
            eager = self.eager(name, size)
            if way == "eager":
                return eager.peak <= budget
            cell = self.rk(name, size, way, asked, budget)
            return cell.outcome == "ok" and cell.is_kept

        for way in WAYS:
            low, high = 0, max(1, self.config["models"][name]["size"] // 4)
            while high <= about["most"] and fits(way, high):
                low, high = high, 2 * high
            high = min(high, about["most"] + 1)
            while high - low > max(1, low // 16):
                middle = (low + high) // 2
                low, high = (middle, high) if fits(way, middle) else (low, middle)


def machine() -> str:
    """The processor, and how many of its cores this process has."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((one.partition(":")[2].strip() for one in lines if one.startswith("model name")), "unknown")
    return f"{name}, {len(os.sched_getaffinity(0))} of its cores"


def cells_at_most(config: dict[str, Any], names: list[str]) -> int:
    """How many cells there are at most: searches end sooner where a size does not fit."""
    count = 0
    for about in map(config["models"].get, names):
        count += 1 + 2 * (len(config["ratios"]) + len(about.get("budgets", [])))
        if "largest" in about:
            doublings = max(about["largest"]["most"] // max(1, about["size"] // 4), 1).bit_length()
            # By each way a size has a cell of eager's, if no other way had it.
            count += (2 * len(WAYS) - 1) * (doublings + HALVINGS)
    return count


def read(path: Path) -> dict[str, Any]:
    """A configuration; what is wrong with it ends the program with one line."""
    try:
        config = json.loads(path.read_text())
        unknown = set(config["models"]) - set(MODELS)
        if unknown:
            raise ValueError(f"no model {min(unknown)!r}; there are {', '.join(MODELS)}")
        if not all(0 < one <= 1 for one in config["ratios"]) or config["steps"] < 1:
            raise ValueError("ratios are above 0 and at most 1, and steps at least 1")
        for about in config["models"].values():
            sizes = [about["size"], *([about["largest"]["most"]] if "largest" in about else [])]
            if min(sizes) < 1:
                raise ValueError("sizes are at least 1")
            largest = [about["largest"]["budget"]] if "largest" in about else []
            for text in [*about.get("budgets", []), *largest]:
                _rk.budget_bytes(text)
    except (OSError, ValueError, TypeError, KeyError, rk.OptionError) as error:
        raise SystemExit(f"online: {path}: {type(error).__name__}: {error}") from None
    return config


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="those of the file unless named")
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("online.json"))
    parser.add_argument("--json", type=Path, help="all cells; what is in it already is not measured again")
    parser.add_argument("--csv", type=Path, help="the same as a table")
    parser.add_argument(
        "--plot", type=Path, help="the figure, written as PATH.svg and PATH.png", metavar="PATH"
    )
    parser.add_argument("--logs", type=Path, help="a folder for a log of each model, for rk-simrd")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    given = parser.parse_args()
    config = read(given.config)
    names = given.models or list(config["models"])
    for name in names:
        if name not in config["models"]:
            parser.error(f"{given.config} has no model {name!r}; there are {', '.join(config['models'])}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    study = Study(config, given.json, given.logs)
    left = max(cells_at_most(config, names) - len([one for one in study.cells if one.model in names]), 0)
    print(
        f"online: {len(names)} models, {len(study.cells)} cells are there, at most {left} are to come: "
        f"{left * SECONDS / 60:.0f} min of an idle core at most, for sizes such as those of online.json",
        file=sys.stderr,
    )
    try:
        for name in names:
            study.budgets(name)
            study.largest(name)
    except KeyboardInterrupt:
        kept = (
            f"{len(study.cells)} cells are in {given.json}"
            if given.json
            else "without --json nothing is kept"
        )
        print(f"online: interrupted; {kept}", file=sys.stderr)
        raise SystemExit(130) from None
    shown = [one for one in study.cells if one.model in names]
    if given.csv is not None:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [one.name for one in dataclasses.fields(Cell)])
            writer.writeheader()
            writer.writerows(dataclasses.asdict(one) for one in shown)
    if given.plot is not None:
        online_report.plot(shown).write(given.plot)
    print(online_report.table(shown), online_report.largest(shown), sep="\n")
    if not all(one.is_kept for one in shown):
        raise SystemExit("online: a cell has other bits than eager, or a plan is above its budget")


if __name__ == "__main__":
    main()
