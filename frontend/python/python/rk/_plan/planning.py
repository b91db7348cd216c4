"""``rk.plan``: the plan of a training step as a value, before anything runs.

The numbers are the judge's. What is asked is what ``torch.compile(model, backend="rk")`` asks, so the same
options give the same plan.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rk import _rk
from rk._graph import capture
from rk._graph.step import Step
from rk._plan import schedule, shares
from rk._plan.options import Options


@dataclasses.dataclass(frozen=True)
class Node:
    """One computation of the step."""

    name: str
    """In the names of the model, such as ``layer1.0.conv1``."""
    operators: tuple[str, ...]
    """PyTorch's, in the order in which they are called."""
    seconds: float
    """One run."""
    output_bytes: int
    """Of all its results."""
    workspace_bytes: int
    """What its kernels need while they run."""
    backward: bool
    """Whether it belongs to the backward pass."""
    runs: int
    """How often the plan runs it."""
    module: str = ""
    """The module whose call it is."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to keep and what to compute again. Bytes that the step allocates, without those that are
    :attr:`resident`, whatever the scope of the budget; seconds as measured.
    """

    budget: int
    """Bytes that are allowed."""
    peak: int
    """The most bytes at any moment of the planned step."""
    base_peak: int
    """The peak without recomputation."""
    resident: int
    """Bytes that are there before the step: parameters, buffers, inputs, gradients of parameters."""
    seconds: float
    """The planned step, forward and backward."""
    base_seconds: float
    """The step without recomputation."""
    lower_bound_seconds: float
    """No plan within the budget takes less (of the class ``bound_kind``)."""
    bound_kind: str
    """Which plans the bound is about."""
    status: str
    """``optimal`` or ``feasible``."""
    solver: str
    """Who found the plan."""
    nodes: tuple[Node, ...]
    """The computations of the step, in its own order."""
    before: tuple[tuple[int, int], ...]
    """Per run of the step as it is: the node and the bytes in use."""
    after: tuple[tuple[int, int], ...]
    """Per run of the plan: the node and the bytes in use."""
    stages: Mapping[str, str] = dataclasses.field(repr=False)
    """The text of every stage of the dialect."""
    host_peak: int = 0
    """The most bytes that wait in host memory, with the option ``offload``."""

    @property
    def overhead(self) -> float:
        """Extra time, in percent."""
        return 100 * (self.seconds / max(self.base_seconds, 1e-12) - 1)

    @property
    def bound(self) -> float:
        """The least extra time that any plan needs, in percent; never above the overhead."""
        return min(100 * (self.lower_bound_seconds / max(self.base_seconds, 1e-12) - 1), self.overhead)

    @property
    def recomputed(self) -> list[Node]:
        """The nodes that run more than once, the most expensive first."""
        again = [node for node in self.nodes if node.runs > 1]
        return sorted(again, key=lambda node: node.seconds * (node.runs - 1), reverse=True)

    def report(self, path: str | os.PathLike[str], points: int = 7) -> Path:
        """Writes the plan as one HTML page that needs nothing else.

        Args:
            path: The file to write.
            points: So many budgets are planned for its curve of budget against time, each within half a
                second.

        Returns:
            The path.
        """
        from rk._report import report

        return report.write(self, Path(path), points)

    def timeline(self, path: str | os.PathLike[str]) -> Path:
        """Writes the planned step for a viewer.

        Args:
            path: The file to write: ``.json`` for Chrome's and Perfetto's trace viewers, ``.pickle`` for
                PyTorch's (pytorch.org/memory_viz).

        Returns:
            The path.

        Raises:
            OptionError: The name ends otherwise.
        """
        from rk._report import timeline

        return timeline.write(self, Path(path))

    def __str__(self) -> str:
        """One line with the numbers."""
        extra = sum(node.runs - 1 for node in self.nodes)
        return (
            f"peak {readable(self.peak)} of {readable(self.budget)} (without recomputing: "
            f"{readable(self.base_peak)}), {self.overhead:.1f} % more time, at least {self.bound:.1f} % are "
            f"needed; {extra} of {len(self.after)} runs are recomputations"
            f"{f'; {readable(self.host_peak)} wait in host memory' if self.host_peak else ''}"
            f"; {self.status}, by {self.solver}"
        )


def plan(model: Any, sample: Any, budget: int | str, **options: Any) -> Plan:
    """Plans the training step of a model on a sample within a budget; nothing of the model is run.

    Args:
        model: The model.
        sample: One input, a tuple of arguments, or a dict of keywords.
        budget: Bytes, ``"2GiB"``, a share such as ``"60%"`` of the peak without recomputation, or ``"auto"``.
        **options: Those of the backend.

    Returns:
        The plan that ``torch.compile(model, backend="rk")`` makes with the same options.

    Raises:
        BudgetError: Nothing fits into the budget.
        CompileError: The model is not one graph.
        OptionError: An option, a unit or a value is not known.
    """
    checked = Options.parse({**options, "budget": budget})
    checked.check_foreseen("rk.plan")
    return of_step(capture.step_of(model, sample), checked)


def of_step(step: Step, options: Options) -> Plan:
    """Plans a step that has been read."""
    problem = schedule.Problem(step, options, schedule.device_of(step))
    answer = problem.explained(shares.budget_of(problem))
    stages = answer["stages"]
    about = json.loads(_rk.translate(stages["scheduled"], "json"))
    memory = json.loads(_rk.memory(stages["scheduled"]))
    runs = [0] * len(about["nodes"])
    for node, _ in memory["after"]:
        runs[node] += 1
    return Plan(
        budget=answer["budget"],
        peak=answer["peak"],
        base_peak=answer["base_peak"],
        resident=answer["resident"],
        seconds=answer["time"] * 1e-9,
        base_seconds=answer["base_time"] * 1e-9,
        lower_bound_seconds=answer["lower_bound"] * 1e-9,
        bound_kind=answer["bound_kind"],
        status=answer["status"],
        solver=answer["solver"],
        nodes=tuple(node_of(node, times) for node, times in zip(about["nodes"], runs, strict=True)),
        before=tuple(map(tuple, memory["before"])),
        after=tuple(map(tuple, memory["after"])),
        stages=stages,
        host_peak=answer["host_peak"] or 0,
    )


def node_of(about: dict[str, Any], runs: int) -> Node:
    """A node as ``rk-translate --to json`` tells of it."""
    return Node(
        name=about["name"],
        operators=tuple(about["operators"]),
        seconds=(about["time_ns"] or 0) * 1e-9,
        output_bytes=sum(size or 0 for size in about["output_bytes"]),
        workspace_bytes=about["workspace_bytes"] or 0,
        backward=about["backward"],
        runs=runs,
        module=about["path"] or "",
    )


def readable(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
