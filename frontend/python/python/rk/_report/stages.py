"""``rk.graphs``: a training step at every stage of the dialect, to read and to look at.

``str(graph)`` is its MLIR text, valid input for ``rk-opt``; ``graph.render("step.svg")`` draws it with
Graphviz.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rk import _rk
from rk._graph import capture
from rk._plan import schedule
from rk._plan.options import Options
from rk._plan.planning import of_step
from rk.errors import CompileError, OptionError

STAGES = ("raw", "dataflow", "simplified", "blocks", "costed", "scheduled")
"""In the order in which passes make them; see docs/ir.md."""
FORMATS = ("svg", "pdf", "png")
_PASSES = {
    "dataflow": "rk-dataflow",
    "simplified": "rk-simplify",
    "blocks": "rk-anonymize",
    "costed": "rk-annotate-cost",
}


@dataclasses.dataclass(frozen=True)
class StepGraph:
    """The step at one stage."""

    stage: str
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        """The MLIR text."""
        return self.text

    def classes(self) -> list[list[str]]:
        """The blocks by class, each named after its modules; those of a class compute the same bits.

        Empty before ``blocks``.
        """
        listed = json.loads(_rk.translate(self.text, "json")).get("classes", [])
        return [one["members"] for one in listed]

    def dot(self) -> str:
        """The drawing in Graphviz's language. Stages before ``simplified`` are drawn simplified."""
        text = self.text
        for stage in STAGES[STAGES.index(self.stage) + 1 : STAGES.index("simplified") + 1]:
            text = _rk.run_passes(text, _PASSES[stage])
        return _rk.translate(text, "dot")

    def render(self, path: str | Path) -> Path:
        """Draws the step into a file whose name ends in .svg, .pdf or .png; returns its path.

        Raises OptionError for another ending, CompileError when Graphviz is missing or fails.
        """
        path = Path(path)
        kind = path.suffix.lstrip(".")
        if kind not in FORMATS:
            raise OptionError(f"'{path.name}' ends in none of {', '.join('.' + one for one in FORMATS)}")
        program = shutil.which("dot")
        if program is None:
            raise CompileError(
                "Graphviz is not installed: there is no program 'dot' (apt install graphviz); "
                "str(graph) is the text, graph.dot() what dot reads"
            )
        drawn = subprocess.run([program, f"-T{kind}"], input=self.dot().encode(), capture_output=True)
        if drawn.returncode != 0:
            raise CompileError(f"dot failed: {drawn.stderr.decode(errors='replace').strip()}")
        from rk._report.report import save

        save(path, drawn.stdout)
        return path


class Graphs(Mapping[str, StepGraph]):
    """The stages by name, in order; ``graphs.simplified`` is ``graphs["simplified"]``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """``texts`` are the stages' texts by name."""
        self._graphs = {stage: StepGraph(stage, texts[stage]) for stage in STAGES if stage in texts}

    def __getitem__(self, stage: str) -> StepGraph:
        """The step at a stage."""
        return self._graphs[stage]

    def __iter__(self) -> Iterator[str]:
        """The names of the stages."""
        return iter(self._graphs)

    def __len__(self) -> int:
        """How many stages there are."""
        return len(self._graphs)

    def __getattr__(self, stage: str) -> StepGraph:
        """The step at a stage."""
        if not stage.startswith("_") and stage in self._graphs:
            return self._graphs[stage]
        raise AttributeError(f"no stage '{stage}'; there are {', '.join(self.__dict__.get('_graphs', ()))}")

    def render(self, folder: str | Path, kind: str = "svg") -> list[Path]:
        """Draws every stage into ``folder/STAGE.kind``."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return [graph.render(folder / f"{stage}.{kind}") for stage, graph in self.items()]


def graphs(model: Any, sample: Any, budget: int | str | None = None, **options: Any) -> Graphs:
    """The training step of a model at every stage; with a budget, ``scheduled`` too.

    ``options`` are those of the backend. Raises BudgetError, OptionError, CompileError.
    """
    checked = Options.parse({**options, **({} if budget is None else {"budget": budget})})
    step = capture.step_of(model, sample)
    texts = {"raw": schedule.Problem(step, checked, schedule.device_of(step)).text()}
    text = texts["raw"]
    for stage, name in _PASSES.items():
        text = texts[stage] = _rk.run_passes(text, name)
    if budget is not None:
        texts["scheduled"] = of_step(step, checked).stages["scheduled"]
    return Graphs(texts)
