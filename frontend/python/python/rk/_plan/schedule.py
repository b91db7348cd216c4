"""From a step and a budget to a schedule: the plan on disk if there is one, else costs, passes and planner.

The answer is that of ``rk-opt --rematerialize`` on the same text. Nothing is decided here, not even how long
is planned.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import os
import time
from collections.abc import Callable

import torch
from torch._logging._internal import trace_structured_artifact

from rk import _rk
from rk._graph import joint, settings
from rk._graph.graph_text import TANGENTS, Cost, Text
from rk._graph.step import Step
from rk._plan import cache, checkpoints, costs, dumps, link, ranks, smallest
from rk._plan import device as devices
from rk._plan.options import Options

log = logging.getLogger(__name__)
_SIZE, _WRITTEN = (lambda about: (about.st_size, about.st_mtime_ns))(os.stat(_rk.__file__))
"""Which extension planned, as another build may plan better. When it was written differs between machines on
which the same one is installed.
"""


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
    step: str | None = None
    """With codegen ``rk``, the text of the step file."""
    arena: int = 0
    """With codegen ``rk``, the bytes of its arena."""
    forward: int = 0
    """The most bytes before the hand-over."""
    held: int = 0
    """Bytes that the step holds while the caller is busy."""
    handed: int = 0
    """Bytes that are the caller's from the hand-over on: what the step hands out, and what comes back."""
    backward: int = 0
    """The most bytes after the hand-over, without those of the caller."""
    accumulating: int = 0
    """The same where gradients are added to others, and count until then."""
    moves: list[tuple[int, str, int, int]] = dataclasses.field(default_factory=list)
    """What begins and ends between the runs on the way to host memory and back, as
    :class:`rk._codegen.emit.Emitter` takes it.
    """
    host_peak: int | None = None
    """The most bytes in host memory, if something waits there."""
    stall: int | None = None
    """How long the runs wait for copies."""
    unmet: str | None = None
    """With ``on_infeasible="best"``, why it is the plan for the smallest budget that was found."""

    @property
    def overhead(self) -> float:
        """Predicted extra time, in percent."""
        return 100 * (self.time - self.base_time) / max(self.base_time, 1)


class Problem:
    """A step, ready to be planned for any budget."""

    def __init__(
        self,
        step: Step,
        options: Options,
        device: torch.device,
        *,
        standing: int = 0,
        measures: bool = True,
        adds: bool = False,
    ) -> None:
        """The step is spelled, and its costs are looked up, when a plan is needed that is not on disk.
        ``standing``: bytes that are there all the time and count, with scope ``device``. Without ``measures``
        costs are those of a model (bytes moved and operations done), and no workspace is known. ``adds``: its
        gradients are added to others, and count until then.
        """
        self.step, self.options, self.device = step, options, device
        self.standing, self.measures, self._adds = standing, measures, adds
        self._lowers = options.codegen == "rk"
        """Whether the plan needs addresses, and what leaves the step lies elsewhere."""
        self._importer = f"rk {_rk.version()} torch {torch.__version__}"

    @property
    def fingerprint(self) -> str:
        """A hash of all that the plan depends on, besides the costs."""
        return self.step.fingerprint

    @property
    def kind(self) -> str:
        """The same on all ranks of a distributed run that have this step."""
        return self.step.kind

    @functools.cached_property
    def _spelled(self) -> Text:
        return Text(self.step, leaves=self._lowers, counts_gradients=self._counts_gradients)

    @property
    def _counts_gradients(self) -> bool:
        return self._adds or self.options.scope == "device"

    @functools.cached_property
    def adding(self) -> Problem:
        """The same step where its gradients are added to others, and count until then."""
        if self._adds:
            return self
        standing = self.standing
        if self.options.scope == "total" and not self._lowers:
            # The gradients of this step are values of it now, and those that are there already stand.
            standing += self.step.gradient_bytes()
        return self._adding(standing)

    def _adding(self, standing: int) -> Problem:
        about = {"standing": standing, "measures": self.measures}
        return Problem(self.step, self.options, self.device, adds=True, **about)

    def base_peak(self, inside: int) -> int:
        """The peak of the step without recomputation, in bytes, when the caller needs ``inside`` at its
        middle.
        """
        return self._answer("100%", inside, "keep-all")["base_peak"]

    def checkpointed_peak(self) -> int:
        """The peak when the model's own checkpoints are obeyed."""
        return Problem(checkpoints.obeyed(self.step), self.options, self.device).base_peak(0)

    @property
    def resident(self) -> int:
        """Bytes that are there before the step, which scope ``total`` counts."""
        return self._answer("100%", 0, "keep-all")["resident"]

    def plan(self, budget: str, inside: int, *, patient: bool = True) -> Schedule:
        """Plans; raises BudgetError when nothing fits and the options do not say otherwise. ``patient``: more
        time is taken where nothing was found.
        """
        start = time.perf_counter()
        answer = self._answer(budget, inside, self.options.solver, patient)
        schedule = _schedule(answer)
        smallest.tell(answer)
        link.check_host(schedule.host_peak)
        log.info(
            "rk: peak %d of %d bytes (%d without recomputing), %.1f %% more time by plan, %s by %s in %.3f s",
            schedule.peak,
            schedule.budget,
            schedule.base_peak,
            schedule.overhead,
            schedule.status,
            schedule.solver,
            time.perf_counter() - start,
        )
        log.debug("rk: second runs: %s", dumps.second_runs(self.step, schedule.runs))
        facts = ("budget", "peak", "base_peak", "time", "base_time", "lower_bound", "status", "solver")
        trace_structured_artifact(
            "rk_plan", "json", lambda: json.dumps({name: getattr(schedule, name) for name in facts})
        )
        return schedule

    def keep(self, schedule: Schedule, budget: int, inside: int) -> None:
        """Whoever asks for exactly this budget, which an error names, gets this plan of the same step."""
        answer = dataclasses.asdict(schedule)
        del answer["unmet"]
        self._smallest(budget, inside).keep(answer)

    def keep_all(self) -> Schedule:
        """The plan that recomputes nothing."""
        return _schedule(self._answer("100%", 0, "keep-all"))

    def checkpoint(self) -> Schedule:
        """The plan that holds nothing across the hand-over that can be run again."""
        known = ranks.agreed(self._shared("checkpoint"), self._checkpoint)
        base = self.keep_all()
        peak = max(known["forward"], known["backward"] + known["handed"])
        about = {"budget": peak, "peak": peak, "status": "feasible", "solver": "checkpoint", **known}
        return dataclasses.replace(base, **about)

    def _checkpoint(self) -> dict:
        folder, name = self.options.cache_folder(), f"checkpoint-{self._named('checkpoint')}"
        known = cache.read(folder, name)
        if known is None:
            known = json.loads(_rk.checkpoint(self.text()))
            cache.write(folder, name, known)
        return known

    def _answer(self, budget: str, inside: int, solver: str, patient: bool = True) -> dict:
        """The planner's answer, the same on all ranks."""
        asked = f"{self._asked(budget, inside, solver)} {patient}"
        finds = self.options.dump_dir is not None
        return ranks.agreed(
            self._shared(asked), lambda: self._found(budget, inside, solver, patient), finds=finds
        )

    def _found(self, budget: str, inside: int, solver: str, patient: bool) -> dict:
        options, folder = self.options, self.options.cache_folder()
        name = self.name(budget, inside, solver)
        known = cache.read(folder, name) if options.dump_dir is None else None
        if known is None and (known := self._smallest(budget, inside).find()) is not None:
            cache.write(folder, name, known)
        if known is not None:
            log.debug("rk: %s was on disk, in %s", name, folder)
            return known
        text = self.text(inside)
        dumps.keep(options.dump_dir, name, {"raw": text})
        answer = self._solved(text, budget, inside, solver, patient=patient)
        stages = answer.pop("stages", {})
        dumps.keep(options.dump_dir, name, {stage: one for stage, one in stages.items() if stage != "raw"})
        cache.write(folder, name, answer)
        return answer

    def _solved(
        self,
        text: str,
        budget: str,
        inside: int,
        solver: str,
        stages: bool = False,
        *,
        patient: bool = True,
    ) -> dict:
        """The planner's answer; where nothing fits, BudgetError, or the plan for the smallest budget."""
        options, reserve = self.options, self._reserve(inside)
        lowers = self._lowers and solver != "keep-all"
        moves = {} if solver == "keep-all" else link.of(options, self.device, self.measures)
        answer = json.loads(
            _rk.rematerialize(
                text,
                budget=budget,
                # What scope `device` adds is the reserve.
                scope="total" if options.scope == "total" else "activations",
                solver=solver,
                time_limit=options.planning_time,
                timekeeping=options.timekeeping,
                on_infeasible=options.on_infeasible,
                patient=patient,
                addresses=lowers,
                reserve=reserve,
                lower=lowers,
                stages=stages or options.dump_dir is not None or dumps.are_traced(),
                **moves,
            )
        )
        # Of an arena, all is taken as long as there is a step.
        answer["peak"] = (answer["arena"] if lowers else answer["peak"]) + reserve
        answer["base_peak"] += reserve
        answer["budget"] += reserve
        unmet = answer.pop("unmet", None)
        if unmet is None:
            return answer
        self._smallest(unmet["smallest"], inside).keep(
            {key: value for key, value in answer.items() if key != "stages"}
        )
        if options.on_infeasible == "error" or not patient:
            raise smallest.error(unmet)
        return {**answer, "unmet": f"{unmet['message']}. Going on with {unmet['smallest']} bytes"}

    def _reserve(self, inside: int) -> int:
        """What of the budget is not the plan's: what stands, and beside an arena, which does not shrink while
        the caller is busy, what leaves the step and what the caller needs at its middle.
        """
        return self.standing + (inside + self.beside_arena if self._lowers else 0)

    @property
    def beside_arena(self) -> int:
        """Bytes of what leaves the step, beside an arena."""
        # Scope `total` has counted the results as resident.
        leaves = 0
        if self.options.scope != "total":
            leaves = self.step.handed_out_bytes(devices.alignment(self.device))
        if self._counts_gradients:
            leaves += self.step.gradient_bytes()
        return leaves

    def name(self, budget: str, inside: int, solver: str) -> str:
        """The name that a plan has on disk."""
        return self._named(self._asked(budget, inside, solver))

    def _asked(self, budget: str, inside: int, solver: str) -> str:
        options = self.options
        scope = f"{options.scope} adds" if self._adds else options.scope
        asked = f"{budget} {inside} {scope} {solver} {options.time_limit} {options.on_infeasible}"
        return f"{asked}{self._kind_of_plan}"

    @property
    def _kind_of_plan(self) -> str:
        options = self.options
        moves = "" if options.offload is None else f" offload {options.offload} {options.bandwidth}"
        return f"{' lowered' if self._lowers else ''}{moves}"

    @property
    def dump(self) -> Callable[[str, str], None] | None:
        """Takes the source of a pass, if the options say where it goes."""
        folder = self.options.dump_dir
        return None if folder is None else dumps.sources(folder, f"code-{self.fingerprint[:8]}")

    def _smallest(self, budget: int | str, inside: int) -> smallest.Plan:
        scope = f"{self.options.scope}{' adds' if self._adds else ''}"
        asked = f"smallest {budget} {inside} {scope}{self._kind_of_plan}"
        return smallest.Plan(self._named(asked), self._shared(asked), self.options.cache_folder())

    def _named(self, asked: str) -> str:
        return f"plan-{cache.key_of(self.fingerprint, asked, f'{self.device} {self._where} {_WRITTEN}')}"

    def _shared(self, asked: str) -> ranks.Name:
        """The name that an answer has among the ranks of a distributed run."""
        return lambda: f"plan-{cache.key_of(self.kind, asked, f'{self.device.type} {self._where}')}"

    @property
    def _where(self) -> str:
        costed = costs.versions(self.device, self.options.cost_model) if self.measures else "roofline"
        return f"{devices.alignment(self.device)} {costed} {self.standing} {self._importer} {_SIZE}"

    def text(self, inside: int = 0) -> str:
        """The step at stage raw, with costs."""
        known = self._costs() if self.measures else {}
        while self._holds_more(known):
            del self._spelled
            known = self._costs()
        known = {**known, TANGENTS: Cost(0, 0 if self._lowers else inside)}
        model = self.options.cost_model if self.measures else "roofline"
        kernels = settings.text(self.device) if self.measures else ""
        alignment = devices.alignment(self.device)
        return self._spelled.text(known, model, str(self.device), kernels, alignment, self._importer)

    def _costs(self) -> dict[str, Cost]:
        about = {"model": self.options.cost_model, "arena": self._lowers}
        return costs.of(self._spelled.calls, self.device, self.options.cache_folder(), **about)

    def _holds_more(self, known: dict[str, Cost]) -> bool:
        """Gives results the storages that they were measured to hold; whether one is longer than it was."""
        longer = False
        for call in self._spelled.calls:
            held = known[call.signature].held if call.signature in known else ()
            for fake, size in zip(joint.results_of(call.node) if held else (), held, strict=True):
                if fake is not None and size > fake.untyped_storage().nbytes():
                    fake.untyped_storage().resize_(size)
                    longer = True
        return longer

    def explained(self, budget: str) -> dict:
        """The planner's answer, with the text of every stage; nothing is read from disk."""
        answer = self._solved(self.text(), budget, 0, self.options.solver, stages=True)
        smallest.tell(answer)
        return answer


def budget_of(step: Step, options: Options, device: torch.device) -> str:
    """The budget that the options mean; ``auto`` is what the device has left now."""
    if options.budget != "auto":
        return options.budget
    return str(devices.rounded(devices.bytes_left(device) - step.gradient_bytes()))


def device_of(step: Step) -> torch.device:
    """The device that a step runs on."""
    tensors = [joint.tensor_of(node) for node in step.placeholders]
    return devices.of(tensor for tensor in tensors if tensor is not None)


def _schedule(answer: dict) -> Schedule:
    names = (field.name for field in dataclasses.fields(Schedule))
    return Schedule(**{name: answer[name] for name in names if name in answer})
