"""``rk.graphs``: a training step at every stage of the dialect, to read and to look at.

``str(graph)`` is its MLIR text, valid input for ``rk-opt``; ``graph.render("step.svg")`` draws it with
Graphviz.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rk import _rk
from rk._graph import capture
from rk._graph.step import Step
from rk._plan import schedule
from rk._plan.options import Options
from rk._plan.planning import of_step
from rk.errors import CompileError, OptionError

STAGES = ("raw", "dataflow", "simplified", "blocks", "costed", "scheduled")
"""In the order in which passes make them; see docs/ir.md."""
FORMATS = ("svg", "pdf", "png")
SECONDS = 60
"""How long Graphviz may take."""
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
    """The name of the stage."""
    text: str = dataclasses.field(repr=False)
    """The MLIR text, which ``rk-opt`` reads."""

    def __str__(self) -> str:
        """The MLIR text."""
        return self.text

    def classes(self) -> list[list[str]]:
        """The blocks by class, each named after its modules; those of a class compute the same bits.

        Returns:
            The names of the blocks of each class; nothing before the stage ``blocks``.
        """
        listed = json.loads(_rk.translate(self.text, "json")).get("classes", [])
        return [one["members"] for one in listed]

    def at(self, stage: str) -> StepGraph:
        """The step at a later stage.

        Args:
            stage: The name of a stage, up to ``costed``.

        Returns:
            The step at that stage; a graph that is there already, or further, is returned as it is.

        Raises:
            OptionError: There is no such stage, or only a plan leads there.
        """
        if stage not in STAGES:
            raise OptionError(f"there is no stage '{stage}'; there are {', '.join(STAGES)}")
        if stage not in _PASSES and STAGES.index(stage) > STAGES.index(self.stage):
            raise OptionError(f"stage '{stage}' takes a plan: rk.graphs(model, sample, budget=...).{stage}")
        text = self.text
        for missing in STAGES[STAGES.index(self.stage) + 1 : STAGES.index(stage) + 1]:
            text = _rk.run_passes(text, _PASSES[missing])
        return self if text is self.text else StepGraph(stage, text)

    def dot(self, blocks: Sequence[str] = ()) -> str:
        """The drawing in Graphviz's language, in a frame for each block or module.

        Stages before ``simplified`` are drawn simplified.

        Args:
            blocks: What is drawn in full; all others are folded into a box. Without any, a small step is
                drawn in full, and of a large one the first of each class.

        Returns:
            What Graphviz's ``dot`` reads.

        Raises:
            OptionError: There is no such block.
        """
        return _rk.translate(self.at("simplified").text, "dot", list(blocks))

    def render(self, path: str | Path, blocks: Sequence[str] = ()) -> Path:
        """Draws the step into a file.

        Args:
            path: The file; its name ends in .svg, .pdf or .png.
            blocks: Those of :meth:`dot`.

        Returns:
            The path.

        Raises:
            OptionError: The name ends otherwise, or there is no such block.
            CompileError: Graphviz is missing, fails, or takes more than a minute.
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
        text = self.dot(blocks)
        # Pixels of a large drawing take longer than its layout.
        size = ["-Gdpi=48"] if kind == "png" and text.count("[label=") > 80 else []
        asked = {"input": text.encode(), "capture_output": True, "timeout": SECONDS}
        try:
            drawn = subprocess.run([program, f"-T{kind}", *size], **asked)
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"dot was stopped: after {SECONDS} s it had not laid out the stage {self.stage}. "
                "render(path, blocks=[...]) draws only those blocks in full; graph.dot() is what dot reads, "
                "for another layout (sfdp)"
            ) from None
        if drawn.returncode != 0:
            raise CompileError(f"dot failed: {drawn.stderr.decode(errors='replace').strip()}")
        from rk._plan.files import save

        save(path, drawn.stdout)
        return path


class Graphs(Mapping[str, StepGraph]):
    """The stages by name, in order; ``graphs.simplified`` is ``graphs["simplified"]``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Takes the stages.

        Args:
            texts: Their texts by name.
        """
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
        text = f"no stage '{stage}'; there are {', '.join(self.__dict__.get('_graphs', ()))}"
        raise AttributeError(f"{text}, and with a budget scheduled" if stage == "scheduled" else text)

    def render(self, folder: str | Path, kind: str = "svg") -> list[Path]:
        """Draws every stage into ``folder/STAGE.kind``.

        Args:
            folder: It is made if it is not there.
            kind: ``svg``, ``pdf`` or ``png``.

        Returns:
            The files.

        Raises:
            OptionError: There is no such kind.
            CompileError: Graphviz is missing, fails, or takes more than a minute.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return [graph.render(folder / f"{stage}.{kind}") for stage, graph in self.items()]


def graphs(model: Any, sample: Any, budget: int | str | None = None, **options: Any) -> Graphs:
    """The training step of a model at every stage; with a budget, ``scheduled`` too.

    Args:
        model: The model. Nothing of it is run.
        sample: One input, a tuple of arguments, or a dict of keywords.
        budget: Bytes, ``"2GiB"``, or a share such as ``"60%"`` of the peak without recomputation; without
            one there is no schedule.
        **options: Those of the backend.

    Returns:
        The stages by name.

    Raises:
        BudgetError: Nothing fits into the budget.
        CompileError: The model is not one graph.
        OptionError: An option, a unit or a value is not known.
    """
    checked = Options.parse({**options, **({} if budget is None else {"budget": budget})})
    step = capture.step_of(model, sample)
    graph = raw(step, checked)
    texts = {graph.stage: graph.text}
    for stage in _PASSES:
        graph = graph.at(stage)
        texts[stage] = graph.text
    if budget is not None:
        texts["scheduled"] = scheduled(step, checked).text
    return Graphs(texts)


def raw(step: Step, options: Options) -> StepGraph:
    """A step that has been read, with the costs of its operators."""
    return StepGraph("raw", schedule.Problem(step, options, schedule.device_of(step)).text())


def scheduled(step: Step, options: Options) -> StepGraph:
    """The plan of a step that has been read."""
    return StepGraph("scheduled", of_step(step, options).stages["scheduled"])
