"""Runs one program in several ways, and says of each whether it was right, refused or wrong."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rk
from campaigns import budgets, ways
from campaigns.caller import Run
from campaigns.process import FINDINGS
from campaigns.program import Program
from campaigns.ways import Way
from rk._codegen import bits, comparison
from rk._online.managed import GIVEN_AWAY
from rk._plan import measure
from rk._run import group

RK_FOLDER = os.path.dirname(rk.__file__)
REFUSALS = (rk.BudgetError, rk.CompileError, rk.OptionError)
Notes = list[tuple[str, Any]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program in one way."""

    way: str
    verdict: str
    """``right``, ``refused``, ``not comparable``, or one of :data:`FINDINGS`."""
    detail: str = ""
    budget: int | None = None
    """Bytes, where the way takes a share."""

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to look."""
        return self.verdict in FINDINGS


class Reference:
    """What a program gives without rk."""

    def __init__(self, program: Program) -> None:
        """Runs it eagerly; through ``aot_eager`` when that is asked for."""
        self.program = program
        self.peak = 0
        self.eager, self.eager_error = attempt(lambda: ways.run_plain(program, None))
        self._plain: dict[str, tuple[Run | None, str]] = {}
        self._whole = 0

    def plain(self, backend: str) -> tuple[Run | None, str]:
        """The run through one of PyTorch's own backends, or its error."""
        if backend not in self._plain:
            fresh()
            self._plain[backend] = attempt(lambda: ways.run_plain(self.program, backend))
        return self._plain[backend]

    def reads_unnoticed(self, *, hooked: bool = True) -> bool:
        """Whether the backward pass of some step without a plan reads what the caller changes behind
        autograd's back: it may be read by a second run, too, and no bits are promised. ``hooked``: with the
        program's hooks, which may give backward something else.
        """
        program = self.program
        if not program.change.endswith((" data", " set")):
            return False
        if not hooked:
            program = dataclasses.replace(program, hooks=())

        def trained(step: int, rounds: int) -> Notes:
            """The gradients of a step, where the caller changes something in so many of its rounds."""
            run = Run(program, lambda one: one)
            # What is made of an output after it was changed is another loss, which is no reading of it.
            run.changes_before, run.uses_copies = (step, rounds), True
            return _gradients(run.train().notes, step)

        try:
            # A change lasts: that of an earlier round is what a later forward pass begins with.
            return any(
                different(trained(step, program.rounds), trained(step, program.rounds - 1))
                for step in range(len(program.batches))
            )
        except Exception:
            # Nothing is known then, and somebody has to look.
            return False

    def watched(self) -> Run:
        """The eager run with a mode that looks on: for a few operators, autograd then takes the formulas that
        it has for tensors of other classes, whose last bits and signs of zeros are others.
        """
        return ways.run_online(self.program, ways.Onlooker())

    def online_peak(self) -> int:
        """The bytes that operators make at once, without a limit."""
        if not self._whole:
            online = ways.Online(ways.BY_NAME["online"], 0)
            ways.run_online(self.program, online)
            self._whole = int(online.context.statistics()["peak_bytes"])
        return self._whole

    def eager_peak(self) -> int:
        """The bytes that the allocator hands out in the first eager step."""
        if not self.peak:
            first = self.program.batches[:1]
            short = dataclasses.replace(self.program, batches=first, optimizer="none", evaluates="")
            with measure.memory(torch.device("cpu")) as seen:
                ways.run_plain(short, None)
            self.peak = seen.peak
        return self.peak

    def problem(self, way: Way) -> str:
        """Why this way cannot be compared bit by bit with eager, if so."""
        if not way.compiles:
            return ""
        if way.kind == "inductor":
            run, error = self.plain("inductor")
            return "" if run is not None else f"Inductor fails: {error}"
        run, error = self.plain("aot_eager")
        if run is None:
            return f"aot_eager fails: {error}"
        if not near(self.eager.notes, run.notes):
            return f"aot_eager differs: {', '.join(different(self.eager.notes, run.notes)[:3])}"
        return ""


def judge(program: Program, names: Sequence[str]) -> list[Outcome]:
    """Runs the program in the ways of these names."""
    fresh()
    gc.collect()
    reference = Reference(program)
    if reference.eager is None:
        return [Outcome(name, "not comparable", f"eager fails: {reference.eager_error}") for name in names]
    found = []
    for name in names:
        way = ways.BY_NAME[name]
        if ways.suits(way, program):
            fresh()
            budget = None if way.share is None or way.kind == "online" else _budget(way, reference)
            found.append(dataclasses.replace(_judge_way(program, way, reference, budget), budget=budget))
    return found


def _gradients(notes: Notes, step: int) -> Notes:
    return [(name, value) for name, value in notes if name.startswith(f"step {step} ") and "gradient" in name]


def fresh() -> None:
    """Nothing is left of what was compiled before. PyTorch may hold on to a graph of it, whose group the next
    program would join.
    """
    torch._dynamo.reset()
    group.GROUPS.clear()


def _budget(way: Way, reference: Reference) -> int:
    """The bytes that a way gives a program."""
    model = reference.eager.model
    gradients = sum(one.nbytes for one in model.parameters() if one.requires_grad)
    budget = max(1, int(way.share * (reference.eager_peak() - gradients)))
    # Two micro-batches have gradients at once.
    is_total = way.options.get("scope") == "total"
    return budget + (budgets.standing(model) + 2 * gradients if is_total else 0)


def _judge_way(program: Program, way: Way, reference: Reference, budget: int | None) -> Outcome:
    graphs = ways.Graphs()
    try:
        run = _run(program, way, reference, graphs, budget)
    except Exception as error:
        return _failed(way, inner(error), reference)
    # What is as eager is right; what aot_eager makes of the program takes a second, and is asked only then.
    wrong = different(reference.eager.notes, run.notes)
    if wrong and way.kind == "inductor":
        wrong = _unlike_inductor(reference, run)
    elif wrong and way.compiles and reference.plain("aot_eager")[0] is not None:
        # Each by itself: of a buffer that is read before it is written, aot_eager's gradient is not eager's.
        other = different(reference.plain("aot_eager")[0].notes, run.notes)
        wrong = [name for name in wrong if name in other]
    elif wrong and not way.compiles:
        wrong = different(reference.watched().notes, run.notes)
    if wrong:
        if way.compiles and reference.reads_unnoticed():
            return Outcome(way.name, "not comparable", "backward reads what was changed through .data")
        problem = reference.problem(way)
        differs = problem.startswith(("aot_eager differs", "Inductor fails"))
        if differs or problem and near(reference.eager.notes, run.notes):
            return Outcome(way.name, "not comparable", problem)
        return Outcome(way.name, "wrong", ", ".join(wrong[:6]))
    told = budgets.ungoverned(program, way, run, graphs)
    if told:
        return Outcome(way.name, "ungoverned", told)
    over = budgets.over(program, way, run, graphs)
    return Outcome(way.name, "over", over) if over else Outcome(way.name, "right")


def _unlike_inductor(reference: Reference, run: Run) -> list[str]:
    """What is neither as eager nor as Inductor without rk has it: Inductor draws numbers of its own."""
    if near(reference.eager.notes, run.notes, 0.05):
        return []
    plain, _ = reference.plain("inductor")
    # A loss in float32 is made of numbers that were rounded in the precision of the program.
    rounding = ROUNDING.get(getattr(torch, reference.program.dtype), 0.0)
    if plain is not None and near(plain.notes, run.notes, rounding):
        return []
    return different((plain or reference.eager).notes, run.notes)


def _run(program: Program, way: Way, reference: Reference, graphs: ways.Graphs, budget: int | None) -> Run:
    if way.kind == "online":
        whole = reference.online_peak() if way.options.get("budget", 0) is not None else 0
        return ways.run_online(program, ways.Online(way, whole))
    fresh()
    return Run(program, ways.compiler_of(way, program, graphs, budget)).train()


def _failed(way: Way, error: BaseException, reference: Reference) -> Outcome:
    text = one_line(error)
    if isinstance(error, rk.VerifyError):
        # The step without the plan reads arguments where they are, whatever hooks make of what is saved.
        if comparison.UNSEEN in text and reference.reads_unnoticed(hooked=False):
            return Outcome(way.name, "not comparable", "backward reads what was changed through .data")
        return Outcome(way.name, "wrong", text)
    if is_refusal(error):
        return Outcome(way.name, "refused", text)
    problem = reference.problem(way)
    if problem:
        return Outcome(way.name, "not comparable", problem)
    return Outcome(way.name, "crash", f"{text} @ {_place(error)}")


def inner(error: BaseException) -> BaseException:
    """What a backend raised, without Dynamo's wrapping."""
    while getattr(error, "inner_exception", None) is not None:
        error = error.inner_exception
    return error


def is_refusal(error: BaseException) -> bool:
    """Whether rk said no, in words of its own."""
    if isinstance(error, (*REFUSALS, rk.OutOfMemoryError)):
        return len(str(error)) > 10
    if isinstance(error, rk.ExecutionError) and "codegen='fx'" in str(error):
        return True
    # What the online runtime refuses, it raises itself, or a kernel raises in its words.
    if str(error).startswith(GIVEN_AWAY):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    ours = bool(frames) and frames[-1].filename.startswith(RK_FOLDER)
    named = isinstance(error, NotImplementedError) or "the memory budget" in str(error)
    return ours and named and len(str(error)) > 10


def attempt(run: Callable[[], Run]) -> tuple[Run | None, str]:
    """A run, or the error that it ended with."""
    try:
        return run(), ""
    except Exception as error:
        return None, one_line(inner(error))


def one_line(error: BaseException) -> str:
    """Class and message, without numbers that differ from run to run."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {re.sub('0x[0-9a-f]+', '0x', text[0] if text else '')[:200]}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if one.filename.startswith(RK_FOLDER)]
    last = (ours or frames)[-1]
    return f"{os.path.basename(last.filename)}:{last.name}"


def different(left: Notes, right: Notes) -> list[str]:
    """The names of what is not the same in both."""
    if [name for name, _ in left] != [name for name, _ in right]:
        both = {name for name, _ in left} ^ {name for name, _ in right}
        return [f"{name} is in one only" for name in sorted(both)] or ["the order of results"]
    return [name for (name, one), (_, other) in zip(left, right, strict=True) if not _same(one, other)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bits.equal(one, other)
    return type(one) is type(other) and one == other


ROUNDING = {torch.bfloat16: 3e-2, torch.float16: 3e-3}
"""How far apart the same number may lie, as a share of the largest of its tensor; 1e-4 for others."""


def near(left: Notes, right: Notes, within: float = 0.0) -> bool:
    """Whether two runs differ by no more than rounding, or than ``within``."""
    if [name for name, _ in left] != [name for name, _ in right]:
        return False
    return all(_near(one, other, within) for (_, one), (_, other) in zip(left, right, strict=True))


def _near(one: Any, other: Any, within: float) -> bool:
    if _same(one, other):
        return True
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if one.shape != other.shape or one.dtype != other.dtype or not one.dtype.is_floating_point:
        return False
    within = max(within, ROUNDING.get(one.dtype, 1e-4))
    one, other = one.double().nan_to_num(7.0, 8.0, 9.0), other.double().nan_to_num(7.0, 8.0, 9.0)
    return bool((one - other).abs().max() <= within * max(one.abs().max(), 1e-6))
