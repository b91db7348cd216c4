"""A compiled graph as a class: its problem, its variants, and its place in a group."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from rk._codegen import program
from rk._graph import joint, loans, switches
from rk._graph.step import Step
from rk._plan.options import Options
from rk._plan.schedule import Problem, Schedule
from rk._run import device_scope, fixed, less
from rk._run.group import Group
from rk._run.variants import Code, Switch, Variant, Write
from rk.errors import BudgetError

_NUMBERS = itertools.count(1)
MOST_FOUND = 32
"""Variants of a class that are remembered."""


class GraphClass:
    """One training graph. Until :meth:`switch` is called it has one variant, which is compiled again if its
    share of the budget changes.
    """

    def __init__(self, options: Options, reason: Any, name: str) -> None:
        """``reason`` is Dynamo's account of why the graph ended, ``name`` what a user knows it by."""
        self.options, self.reason, self.number = options, reason, next(_NUMBERS)
        self.name = name
        self.group: Group | None = None
        self.problem: Problem | None = None
        self.given: Sequence[Any] = ()
        """While it is compiled, what it is called with."""
        self._found: dict[tuple[int | None, int], Variant | None] = {}
        """By what was asked for: the latest variants that :meth:`holding` has planned."""
        self.base: Variant | None = None
        """The variant that is compiled."""
        self.switches = False
        """Whether other variants can run."""
        self.ways: dict[Code, less.Way] = {}
        """How calls that run these passes become checkpoints."""
        self.unsaved: dict[Code, less.Unsaved] = {}
        """What calls that run these passes may need to become checkpoints."""
        self.stale = False
        """It must be compiled again, with what is :attr:`asked` for."""
        self.asked: tuple[str, int] | None = None
        """Of a class with one variant: the budget of its plan, and the bytes of it for what runs inside or is
        held by other calls.
        """
        self.asked_alone: tuple[str, int] | None = None
        """The same for a plan that has the whole budget."""
        self.zeroes = 0
        """Calls in a row at whose begin there were gradients, which had gone before the backward half
        (:mod:`rk._run.alone`).
        """
        self.holds_least = False
        """It has one plan, which was made to hold no more than it must."""
        self.adds = False
        """It has one plan, which was made for calls whose gradients are added to others."""
        self.times = 0
        """How often it was planned."""
        self.returns = 0
        """How often it went back to a plan that a single step had no room for."""
        self.calls = 0
        """How many forward halves have run."""

    def plan(self, problem: Problem, budget: str) -> Schedule:
        """The first plan: for the whole budget, or for the share that has been found for it."""
        self.problem, self.stale = problem.adding if self.adds else problem, False
        self._read(problem.step)
        if self.group is None:
            self.group = device_scope.of(problem.device, self.options)
            self.group.join(self, budget)
            self.group.is_to_be_compiled()
        if self.asked is None:
            self.asked = self.asked_alone = self.group.alone(budget), 0
            if not self._will_switch():
                fixed.begin(self)
        try:
            return self.planned("alone", *self.asked)
        except BudgetError:
            known_later = budget.endswith("%") or not self.group.alone_suffices
            if not (self._will_switch() and self.group.shared and known_later):
                raise
            # A share is one of the whole step, in which this may be a small part. With scope `device` others
            # may make room.
            return self.planned("alone", "100%", 0)

    def _read(self, step: Step) -> None:
        inputs = [node for node in step.placeholders if not joint.is_backward_only(node)]
        self.trained = [
            place for place, one in enumerate(inputs) if one in step.static and step.is_trained(one)
        ]
        """Which arguments are parameters with a gradient."""
        self.gradients = step.own_gradients()
        """Which results of the backward half are gradients of parameters, and nothing else."""
        self.others = [place for place, one in enumerate(inputs) if one not in step.static]
        """Which arguments are neither parameters nor buffers."""
        self.state = [place for place, one in enumerate(inputs) if one in step.static]
        """Which arguments are parameters and buffers."""
        copies = loans.copies(step.gm.graph)
        sources = [(("node", node.name), node.args[0]) for node in copies]
        places = {one: place for place, one in enumerate(inputs)}
        found = [less.Lent.of(key, places[one], joint.tensor_of(one)) for key, one in sources]
        self.lent = [one for one in found if one is not None]
        """Which arguments are copied."""
        tensors = [(place, one) for place, one in enumerate(inputs) if joint.tensor_of(one) is not None]
        self.readable = [place for place, one in tensors if one not in step.loans.arguments]
        """Which arguments a second run may read."""
        self.relevant = switches.Relevant(step.targets, self.problem.device)
        """The switches of PyTorch's that its kernels depend on."""

    def _will_switch(self) -> bool:
        return self.options.codegen == "fx" and program.suits(self.problem.step)

    def planned(self, name: str, budget: str, inside: int) -> Schedule:
        """Plans, and takes the plan as the one that is compiled."""
        name = "least" if self.holds_least else name
        schedule = self.problem.plan(budget, inside)
        self.times += 1
        made_by = ("compiled",) if self._will_switch() else ("compiled_for", budget, inside)
        self.base = Variant(name, schedule, None, made_by)
        return schedule

    def switch(self) -> Switch:
        """The compiled callable that runs any variant of this class."""
        self.switches = True
        made = Switch(self.problem.step, self._write(self.base.schedule), self)
        self.base.__dict__["code"] = made.base
        return made

    @property
    def _folder(self) -> Any:
        return self.options.cache_folder()

    def compiled(self) -> Variant:
        """What AOTAutograd compiled."""
        return self.base

    def compiled_for(self, budget: str, inside: int) -> Variant:
        """Of a class with one variant, what is compiled for so much; see :attr:`asked`."""
        made_by = ("compiled_for", budget, inside)
        if self.base.made_by == made_by:
            return self.base
        return self._variant("compiled", self.problem.plan(budget, inside), *made_by)

    def made(self, made_by: Sequence[Any]) -> Variant | None:
        """The variant that is made in such a way (:attr:`Variant.made_by`); None if no plan is found."""
        name, *arguments = made_by
        found = getattr(self, name)
        return found(*arguments) if callable(found) else found

    def _variant(self, name: str, schedule: Schedule, *made_by: Any) -> Variant:
        step, write = self.problem.step, self._write(schedule)
        return Variant(name, schedule, lambda: Code(step, write(), write), made_by=made_by)

    def _write(self, schedule: Schedule) -> Write:
        """What writes the passes of a plan."""
        problem, again = self.problem, {line for line, second in schedule.runs if second}
        about = (problem.step, schedule.runs, self._folder, problem.dump)
        once = [node.name for line, node in problem.step.random if line not in again]
        return functools.partial(program.recorded, *about, moves=schedule.moves, remembered=once)

    @functools.cached_property
    def checkpoint(self) -> Variant:
        """Holds nothing that can be run again."""
        return self._variant("checkpoint", self.problem.checkpoint(), "checkpoint")

    @functools.cached_property
    def keep_all(self) -> Variant:
        """Runs nothing again."""
        schedule = self.problem.keep_all()
        base = None if self.base is None else self.base.schedule
        if base is not None and schedule.runs == base.runs and not base.moves:
            return self.base
        return self._variant("keep all", schedule, "keep_all")

    @functools.cached_property
    def alone(self) -> Variant:
        """Has the whole budget."""
        return self._variant("alone", self.problem.plan(*self.asked_alone), "alone")

    @functools.cached_property
    def adding(self) -> Variant:
        """Has the whole budget, where its gradients are added to others; BudgetError if nothing fits."""
        try:
            schedule = self.problem.adding.plan(*self.asked_alone)
        except BudgetError as error:
            error.args = (
                f"{error} (the parameters have gradients, to which those of {self.name} are added, and count "
                "until then)",
            )
            raise
        self.times += 1
        return self._variant("adding", schedule, "adding")

    @functools.cached_property
    def smallest(self) -> Variant | None:
        """Takes the least of all that are found when time is short."""
        try:
            return self.holding(None, self.problem.plan("1", 0, patient=False).peak)
        except BudgetError as error:
            least = error.smallest_bytes
            return None if least is None else self.holding(None, least - self.resident)

    def holding(self, held: int | None, budget: int) -> Variant | None:
        """Holds at most so much, if that is said, and takes at most ``budget``; None if no plan is found."""
        if (held, budget) not in self._found:
            while len(self._found) >= MOST_FOUND:
                self._found.pop(next(iter(self._found)))
            self._found[held, budget] = self._planned_to_hold(held, budget)
        return self._found[held, budget]

    def _planned_to_hold(self, held: int | None, budget: int) -> Variant | None:
        inside = self.inside(held, budget)
        if budget <= 0 or inside < 0:
            return None
        try:
            schedule = self.problem.plan(str(budget + self.resident), inside, patient=False)
        except BudgetError:
            return None
        self.times += 1
        name = "tight" if held is None else f"{schedule.held} held"
        return self._variant(name, schedule, "holding", held, budget)

    def inside(self, held: int | None, budget: int) -> int:
        """Bytes of a budget that a plan must leave to its caller, so that it holds no more than that."""
        return 0 if held is None else budget - held - self.keep_all.schedule.handed

    def within(self, room: int) -> Variant:
        """Takes at most so much; BudgetError if no plan does."""
        self.times += 1
        return self._variant("tight", self.problem.plan(str(room + self.resident), 0), "within", room)

    @property
    def resident(self) -> int:
        """Bytes that a budget of its problem has for what stands there, and a room in a step has not."""
        return self.problem.resident if self.options.scope == "total" else 0

    @functools.cached_property
    def output_bytes(self) -> int:
        """Bytes of what forward hands out."""
        tensors = [joint.tensor_of(one) for one in self.problem.step.outputs]
        storages = (one.untyped_storage() for one in tensors if one is not None)
        return sum({one._cdata: one.nbytes() for one in storages}.values())

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients of parameters that backward makes."""
        return self.problem.step.gradient_bytes()

    def accumulating(self, variant: Variant) -> int:
        """The most in the backward half of a variant, in bytes, where its gradients are added to others and
        count until then.
        """
        plan = variant.schedule
        return plan.accumulating if plan.step is None else plan.peak + self.gradient_bytes
