"""Samples through ``torch.compile``: the same graph by aot_eager and in every way of rk.

Dynamo traces once, and each way gets its graph; from there on all is as in ``torch.compile(backend=...)``.
What a way does is an outcome: *equal*, *refused* (an error of rk's own), *wrong* (other bits), *crash* (any
other error). What PyTorch itself cannot do, or does differently each time, is told apart from that first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.debugging import aot_eager

import rk
from campaigns.opinfo.families import Subject, tensors_in
from campaigns.opinfo.program import UNDER_TEST, Flat, Run, around
from rk import _torch
from rk._codegen import bits
from rk._compile.backend import Compiled
from rk._graph import joint
from rk._graph.step import Step
from rk._plan.options import Options

PLAIN = "aot_eager"
SMALLEST = {"budget": 1, "on_infeasible": "best", "time_limit": "20ms"}
CODEGENS = ("fx", "rk") if _torch.refuse_runtime() is None else ("fx",)
WAYS = {codegen: {**SMALLEST, "codegen": codegen} for codegen in CODEGENS}
ATTEMPTS = 40
"""How often a step without a plan runs again when a planned one differs, to see if it repeats itself."""


class Observed(Compiled):
    """A compiled graph that tells what ran again."""

    again: list[str]
    """The operators under test that the plan runs again."""
    once: list[str]
    """Those that it runs once."""

    def _partition(self, gm: fx.GraphModule, inputs: Any, **about: Any) -> Any:
        parts = super()._partition(gm, inputs, **about)
        step = Step(gm, about["num_fwd_outputs"], about.get("static_lifetime_input_indices") or ())
        lines = {line: second for line, second in sorted(self.schedule.runs)}
        tested = [
            (line, node) for line, node in enumerate(step.lines, 1) if node is not None and _is_tested(node)
        ]
        self.again = sorted({str(node.target) for line, node in tested if lines.get(line)})
        self.once = sorted({str(node.target) for line, node in tested if lines.get(line) is False})
        return parts


def _is_tested(node: fx.Node) -> bool:
    return not joint.is_backward(node) and UNDER_TEST.items() <= (node.meta.get("custom") or {}).items()


class Peers:
    """A backend that compiles one graph in every way; :attr:`now` says which one runs."""

    def __init__(self, ways: Sequence[str], at: Callable[[str], None]) -> None:
        """``at`` is told what is about to be done."""
        self.ways, self.at, self.now = ways, at, PLAIN
        self.graphs: list[dict[str, Any]] = []
        self.errors: dict[str, BaseException] = {}
        self.plans: dict[str, Observed] = {}

    def __call__(self, gm: nn.Module, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles; only an error of the plain way is raised."""
        self.at(PLAIN)
        runs = {PLAIN: aot_eager(gm, list(inputs))}
        for way in self.ways:
            self.at(way)
            try:
                runs[way] = self.plans[way] = _compiled(gm, inputs, WAYS[way])
            except Exception as error:  # noqa: BLE001 - to be classified
                self.errors[way] = error
        self.graphs.append(runs)
        return lambda *args: runs[self.now](*args)


def _compiled(gm: nn.Module, inputs: Sequence[Any], options: dict[str, Any]) -> Compiled:
    if any(isinstance(one, torch.SymInt) for one in inputs):
        raise NotImplementedError("a graph with symbolic sizes")
    made = Observed(gm, Options.parse(options), getattr(gm, "compile_subgraph_reason", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.compile(inputs)
    return made


@dataclasses.dataclass
class Outcome:
    """What became of a sample in one way."""

    kind: str
    """``equal``, ``refused``, ``wrong``, ``crash``, ``unsteady`` or ``torch``."""
    reason: str = ""
    again: list[str] = dataclasses.field(default_factory=list)
    once: list[str] = dataclasses.field(default_factory=list)
    kept: bool = True
    """Whether the plan is within its budget, by the judge."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    torch._dynamo.reset()
    settings = torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True,
        capture_scalar_outputs=True,
        dont_skip_tracing=True,
        suppress_errors=False,
    )
    with settings, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcomes(
    subjects: Sequence[Subject], ways: Sequence[str], at: Callable[[str], None], dynamo: bool = True
) -> dict[str, Outcome]:
    """What becomes of samples, all in one function, in these ways; under ``aot_eager`` whether that one gives
    eager's bits. Without Dynamo, the function is AOTAutograd's at once, which takes half of the time.
    """
    program, run = around(subjects), Run(subjects)
    at("eager")
    try:
        eager = run(program)
    except Exception as error:  # noqa: BLE001 - to be classified
        return {PLAIN: Outcome("torch", f"eager: {told(error)}")}
    with _quiet():
        peers = Peers(ways, at)
        try:
            compiled = _through_dynamo(program, peers) if dynamo else _directly(program, peers, subjects)
            plain = run(compiled)
        except Exception as error:  # noqa: BLE001 - to be classified
            return {PLAIN: Outcome("torch", f"{PLAIN}: {told(error)}")}
        if not peers.graphs:
            return {PLAIN: Outcome("torch", "nothing in it for a compiler")}
        made = {PLAIN: Outcome("equal" if same(eager, plain) else "unlike eager")}
        for way in ways:
            at(way)
            made[way] = _outcome(peers, way, run, compiled, plain, eager)
        peers.now = PLAIN
        return made


def _through_dynamo(program: Callable[..., Any], peers: Peers) -> Callable[..., Any]:
    return torch.compile(program, backend=peers, fullgraph=True, dynamic=False)


def _directly(program: Callable[..., Any], peers: Peers, subjects: Sequence[Subject]) -> Callable[..., Any]:
    given = [one.fresh() for one in subjects]
    run = peers(Flat(program, given), [torch.tensor(0.7, requires_grad=True), *tensors_in(given)])
    return lambda gate, given: list(run(gate, *tensors_in(given)))


def _outcome(peers: Peers, way: str, run: Run, compiled: Any, plain: list[Any], eager: list[Any]) -> Outcome:
    if way in peers.errors:
        return _failed(peers.errors[way])
    peers.now = way
    try:
        found = run(compiled)
    except Exception as error:  # noqa: BLE001 - to be classified
        return _failed(error)
    plan = peers.plans[way]
    schedule = plan.schedule
    about: dict[str, Any] = {}
    if schedule is not None:
        about = {"again": plan.again, "once": plan.once, "kept": schedule.peak <= schedule.budget}
    # Each by itself: where aot_eager is not eager (`pinverse` of complex numbers), either is right.
    if len(plain) == len(found) and all(
        _equal(a, b) or _equal(c, b) for a, b, c in zip(plain, found, eager, strict=True)
    ):
        return Outcome("equal", **about)
    peers.now = PLAIN
    if is_unsteady(lambda: run(compiled)):
        return Outcome("unsteady", "two runs without a plan differ", **about)
    return Outcome("wrong", difference(plain, found), **about)


def is_unsteady(run: Callable[[], Sequence[Any]]) -> bool:
    """Whether runs of what has no plan differ from each other."""
    first = run()
    kept = []
    for number in range(ATTEMPTS):
        # What reads memory that nobody has written shall find something else there, and kernels whose last
        # bits follow from where their arguments lie (LAPACK's lstsq) shall find them elsewhere.
        litter = [torch.full((1 << (number % 8 + bit),), float(number)) for bit in range(12)]
        del litter
        kept.append(torch.empty(4 * (number % 13) + 1))
        if not same(first, run()):
            return True
    return False


def _failed(error: BaseException) -> Outcome:
    inner = getattr(error, "inner_exception", error)
    if isinstance(inner, rk.RkError):
        return Outcome("refused", told(inner))
    return Outcome("crash", f"{told(inner)} @ {place(inner)}")


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two runs were seen to do the same, to the last bit."""
    return len(left) == len(right) and all(_equal(a, b) for a, b in zip(left, right, strict=True))


def _equal(left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
    if left is None or right is None:
        return left is right
    return bits.equal(left, right)


def difference(left: Sequence[Any], right: Sequence[Any]) -> str:
    """Where two runs differ."""
    if len(left) != len(right):
        return f"{len(left)} results and {len(right)}"
    places = [n for n, (a, b) in enumerate(zip(left, right, strict=True)) if not _equal(a, b)]
    first = places[0]
    return f"of {len(left)} results, {places} differ: {_short(left[first])} is {_short(right[first])}"


def _short(value: torch.Tensor | None) -> str:
    return "None" if value is None else re.sub(r"\s+", " ", str(value.flatten()[:4]))


def told(error: BaseException) -> str:
    """An error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:400]}"


def place(error: BaseException) -> str:
    """The last frames of an error, rk's if there are some."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/rk/" in one.filename] or frames
    return " < ".join(
        f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in reversed(ours[-3:])
    )
