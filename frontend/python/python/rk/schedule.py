"""From a step and a budget to a schedule: the plan on disk if there is one, else costs, passes and planner.

The answer is that of ``rk-opt --rematerialize`` on the same text; nothing is decided here.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
import warnings
from pathlib import Path

import torch

from rk import _rk, cache, costs
from rk.errors import BudgetError
from rk.graph_text import Step
from rk.options import Options

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A plan as the planner returned it; bytes and nanoseconds."""

    runs: list[tuple[int, bool]]
    """Lines of the step in order of execution, each with whether it is a second run."""
    budget: int
    peak: int
    base_peak: int
    resident: int
    time: int
    base_time: int
    lower_bound: int
    status: str
    solver: str
    from_cache: bool = False

    @property
    def overhead(self) -> float:
        """Predicted extra time, in percent."""
        return 100 * (self.time - self.base_time) / max(self.base_time, 1)


def plan(step: Step, options: Options, device: torch.device, budget: str) -> Schedule:
    """Plans a step within a budget; raises BudgetError when nothing fits and the options do not say
    otherwise.
    """
    start = time.perf_counter()
    alignment = 512 if device.type == "cuda" else 64
    importer = f"rk {_rk.version()} torch {torch.__version__}"
    bare = step.text({}, str(device), alignment, importer)
    folder = options.cache_folder()
    asked = f"{budget} {options.scope} {options.solver} {options.time_limit} {options.on_infeasible}"
    name = f"plan-{cache.key_of(bare, asked, costs.versions(device))}"
    known = cache.read(folder, name) if options.dump_dir is None else None
    if known is not None:
        schedule = _schedule(known, from_cache=True)
    else:
        text = step.text(costs.of(step.calls, device, folder), str(device), alignment, importer)
        if options.dump_dir is not None:
            _dump(options.dump_dir, name, {"raw": text})
        answer = _planned(text, options, budget)
        if options.dump_dir is not None:
            _dump(options.dump_dir, name, answer.pop("stages", {}))
        cache.write(folder, name, answer)
        schedule = _schedule(answer, from_cache=False)
    log.info(
        "rk: peak %d of %d bytes (%d without recomputing), %.1f %% more time by plan, %s by %s in %.3f s",
        schedule.peak,
        schedule.budget,
        schedule.base_peak,
        schedule.overhead,
        schedule.status,
        "cache" if schedule.from_cache else schedule.solver,
        time.perf_counter() - start,
    )
    return schedule


def _schedule(answer: dict, from_cache: bool) -> Schedule:
    names = {field.name for field in dataclasses.fields(Schedule)}
    return Schedule(**{name: answer[name] for name in names & answer.keys()}, from_cache=from_cache)


def _planned(text: str, options: Options, budget: str) -> dict:
    def ask(budget: str) -> dict:
        answer = _rk.rematerialize(
            text,
            budget=budget,
            scope=options.scope,
            solver=options.solver,
            time_limit=f"{options.time_limit}s",
            stages=options.dump_dir is not None,
        )
        return json.loads(answer)

    try:
        return ask(budget)
    except BudgetError as error:
        if options.on_infeasible == "error" or error.smallest_bytes is None:
            raise
        warnings.warn(
            f"rk: {error}. Going on with {error.smallest_bytes} bytes (on_infeasible='best')", stacklevel=2
        )
        return ask(str(error.smallest_bytes))


def _dump(folder: Path, name: str, stages: dict[str, str]) -> None:
    """Writes the text of every stage, numbered in their order."""
    order = ["raw", "dataflow", "simplified", "blocks", "costed", "scheduled"]
    folder.mkdir(parents=True, exist_ok=True)
    for stage, text in stages.items():
        (folder / f"{name[:13]}-{order.index(stage) if stage in order else 9}-{stage}.mlir").write_text(text)
