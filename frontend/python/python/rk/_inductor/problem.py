"""A joint graph as a problem for the planner: the units of PyTorch's own partition, at stage ``costed``.

A value is a buffer. Views are no values: who reads one reads its buffer. A unit has one line, as a call has
(:mod:`rk._graph.step`): first those of forward, then ``rk.tangents``, then those of backward.
"""

from __future__ import annotations

import functools
import hashlib
import re

import torch
from torch import fx

from rk._graph import settings, spelling
from rk._graph.graph_text import Cost
from rk._graph.step import Step
from rk._inductor import costs, kept
from rk._inductor.halves import Halves
from rk._inductor.living import Living
from rk._inductor.runs import Runs
from rk._inductor.text import Text
from rk._inductor.units import Unit
from rk._plan import device as devices
from rk._plan import schedule
from rk._plan.options import Options
from rk.errors import CompileError


class Unreadable(CompileError):
    """Something of a graph cannot be planned as Inductor's kernels."""


def problem_of(step: Step, options: Options, device: torch.device) -> Problem:
    """A joint graph as units, ready to be planned; raises :class:`Unreadable`."""
    static = [step.places[node] for node in step.static]
    try:
        halves = kept.halves_of(step.gm, len(step.outputs), static, device)
        problem = Problem(step, halves, options, device)
        _ = problem.fingerprint
    except CompileError as error:
        raise Unreadable(str(error)) from error
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, AssertionError) as error:
        # What is read is private to PyTorch, and its next version may have it otherwise.
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return problem


class Problem(schedule.Problem):
    """Units, ready to be planned for any budget."""

    def __init__(
        self,
        step: Step,
        halves: Halves,
        options: Options,
        device: torch.device,
        *,
        standing: int = 0,
        adds: bool = False,
    ) -> None:
        """``step`` is the joint graph that the halves were made of."""
        super().__init__(step, options, device, standing=standing, adds=adds)
        self.halves = halves

    def _adding(self, standing: int) -> Problem:
        return Problem(self.step, self.halves, self.options, self.device, standing=standing, adds=True)

    @functools.cached_property
    def uncounted(self) -> list[int]:
        """Which results of backward no budget counts: gradients of parameters, unless all of them count."""
        return [] if self._counts_gradients else self.step.gradient_places()

    @functools.cached_property
    def gradients(self) -> set[fx.Node]:
        """The values that are such gradients."""
        bases = self.halves.backward.bases
        return {bases[place] for place in self.uncounted if place < len(bases)} - {None}

    def checkpointed_peak(self) -> int:
        """The peak when the model's own checkpoints are obeyed."""
        step = self.step
        static = [step.places[node] for node in step.static]
        halves = kept.halves_of(step.gm, len(step.outputs), static, self.device, obeys=True)
        return Problem(step, halves, self.options, self.device).base_peak(0)

    @functools.cached_property
    def _written(self) -> tuple[str, list[str]]:
        return Text(self.step, self.halves, counts_gradients=self._counts_gradients).parts()

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the units and of all that they read and give."""
        head, nodes = self._written
        return hashlib.sha256("\n".join([head, *nodes]).encode()).hexdigest()

    @property
    def kind(self) -> str:
        """The same on all devices of a kind."""
        head, nodes = self._written
        told = re.sub(r"(cuda):\d+", r"\1", "\n".join([head, *nodes]))
        return hashlib.sha256(told.encode()).hexdigest()

    @functools.cached_property
    def _known(self) -> dict[Unit, Cost]:
        units = [unit for unit in self.halves.lines if unit is not None]
        folder, model = self.options.cache_folder(), self.options.cost_model
        return costs.of(units, self.gradients, self.device, folder, model)

    def written_peak(self, schedule: schedule.Schedule, inside: int, *, pinned: bool) -> int:
        """What Inductor's code of a plan will add up to."""
        workspaces = {unit: cost.workspace for unit, cost in self._known.items()}
        runs = Runs(self.halves, schedule.runs)
        living = Living(runs, workspaces, devices.alignment(self.device))
        glued = not pinned and self.device.type == "cpu"
        return living.peak(inside, self.uncounted, glued=glued)

    def text(self, inside: int = 0) -> str:
        """The step at stage costed."""
        known, model = self._known, self.options.cost_model
        head, nodes = self._written
        spelled = [
            node.replace("COST", _cost(Cost(0, inside) if unit is None else known[unit]), 1)
            for node, unit in zip(nodes, self.halves.lines, strict=True)
        ]
        about = (
            f'module attributes {{rk.cost_model = "{model}", '
            f"rk.device = {spelling.quoted(str(self.device))}, "
            f"rk.settings = {spelling.quoted(settings.text(self.device))}, "
            f"rk.alignment = {devices.alignment(self.device)} : i64, "
            f"rk.importer = {spelling.quoted(self._importer)}}} {{"
        )
        return "\n".join([about, *spelled, head, "}", ""])


def _cost(cost: Cost) -> str:
    return f"cost <{cost.nanoseconds} ns, workspace {cost.workspace} B>"
