"""The ways of running a program: eagerly, through ``aot_eager``, and every way of rk at several budgets."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rk
from campaigns.caller import Compiler, Run, given, lasting, rows_of
from campaigns.program import Program
from rk import _torch
from rk._compile import backend as torch_backend
from tests.online_models import Meter


@dataclasses.dataclass(frozen=True)
class Way:
    """How a program is run."""

    name: str
    kind: str
    """``compile`` (the backend), ``rk.compile``, ``Rockmate``, ``online`` or ``inductor``."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    share: float | None = None
    """Of the activations of an eager step, where a budget in bytes is made of it."""
    weight: float = 1.0

    @property
    def compiles(self) -> bool:
        """Whether Dynamo traces the program, so that ``aot_eager`` says what is right."""
        return self.kind != "online"


BEST = {"on_infeasible": "best", "time_limit": "50ms"}
LEAST = {"budget": "1%", **BEST}
WAYS = (
    Way("fx least", "compile", LEAST, weight=4),
    Way("fx 60%", "compile", {"budget": "60%", **BEST}, weight=2),
    Way("fx 100%", "compile", {"budget": "100%", "time_limit": "50ms"}),
    Way("fx bytes", "compile", BEST, share=0.7),
    Way("fx rk.compile", "rk.compile", BEST, share=0.7, weight=0.5),
    Way("fx total", "compile", {"scope": "total", **BEST}, share=0.35),
    Way("fx verify", "compile", {"verify": True, **LEAST}, weight=0.5),
    Way("rk least", "compile", {"codegen": "rk", **LEAST}, weight=3),
    Way("rk 60%", "compile", {"codegen": "rk", "budget": "60%", **BEST}, weight=2),
    Way("rk 100%", "compile", {"codegen": "rk", "budget": "100%", "time_limit": "50ms"}),
    Way("rk bytes", "compile", {"codegen": "rk", **BEST}, share=0.8),
    Way("Rockmate", "Rockmate", {"budget": "60%", **BEST}, weight=0.7),
    Way("online", "online", {"budget": None}, weight=0.5),
    Way("online 100%", "online", share=1.0),
    Way("online 60%", "online", share=0.6, weight=2),
    Way("online 40%", "online", share=0.4, weight=2),
    Way("online segments", "online", {"segments": True}, share=0.5),
    Way("inductor", "inductor", {"codegen": "inductor", "budget": "60%", **BEST}, weight=0),
    Way("inductor bytes", "inductor", {"codegen": "inductor", **BEST}, share=0.6, weight=0),
    Way(
        "inductor total", "inductor", {"codegen": "inductor", "scope": "total", **BEST}, share=0.35, weight=0
    ),
)
WAYS = tuple(one for one in WAYS if one.options.get("codegen") != "rk" or _torch.refuse_runtime() is None)
BY_NAME = {one.name: one for one in WAYS}
ALL_EVERY, INDUCTOR_EVERY = 25, 200
"""Of so many programs one is run in all ways, or by Inductor, too, which is slow."""


def chosen(program: Program, count: int) -> list[str]:
    """The names of the ways that a program is run in: ``count`` of them, drawn by its seed; 0 for all but
    Inductor's. One program of :data:`ALL_EVERY` is run in all of them anyway.
    """
    names = [one.name for one in WAYS if one.weight]
    if count == 0 or program.seed % ALL_EVERY == 1:
        return names
    dice = random.Random(program.seed)
    drawn: list[str] = []
    while len(drawn) < min(count, len(names)):
        rest = [one for one in WAYS if one.name not in drawn and one.weight]
        drawn.append(dice.choices(rest, [one.weight for one in rest])[0].name)
    if program.seed % INDUCTOR_EVERY == 0:
        drawn.append(("inductor", "inductor bytes", "inductor total")[program.seed // INDUCTOR_EVERY % 3])
    return drawn


class Graphs:
    """rk's backend, which keeps what it has compiled."""

    def __init__(self) -> None:
        """Nothing so far."""
        self.compiled: list[Any] = []

    def __call__(self, gm: Any, inputs: Sequence[Any], **more: Any) -> Any:
        """As ``torch.compile`` calls a backend."""
        made = torch_backend.rk(gm, inputs, **more)
        self.compiled.append(made)
        return made

    def training(self) -> list[Any]:
        """The compiled graphs that have a backward pass."""
        whole = [one for made in self.compiled for one in getattr(made, "by_sizes", {0: made}).values()]
        return [one for one in whole if getattr(one, "schedule", None) is not None]


def compiler_of(way: Way, program: Program, graphs: Graphs, budget: int | None) -> Compiler:
    """What makes a compiled one of a module or function; ``budget``: bytes, where the way takes a share."""
    options, dynamic = dict(way.options), program.dynamic
    if budget is not None:
        options["budget"] = budget if way.kind == "rk.compile" else str(budget)
    if way.kind == "rk.compile":
        return lambda one: rk.compile(one, dynamic=dynamic, **options)
    if way.kind == "Rockmate":
        more = {**given(program, program.batches[0], 0), **lasting(program)}
        x, _ = rows_of(program, program.batches[0], 0)
        sample = (x, *(more[name] for name in program.takes()))
        return lambda one: rk.Rockmate(one, sample, **options)
    return lambda one: torch.compile(one, backend=graphs, dynamic=dynamic, options=options)


def suits(way: Way, program: Program) -> bool:
    """Whether the way can run the program at all."""
    if way.kind == "Rockmate":
        # A sample is one set of sizes, of the whole model.
        return program.wrap == "model" and len(set(program.batches)) == 1 and not program.autocast
    return True


class Online:
    """A budget of the online runtime, and somebody who counts what operators make without knowing of it."""

    def __init__(self, way: Way, whole: int) -> None:
        """``whole``: the bytes of which the way takes its share."""
        options = dict(way.options)
        self.bytes = options.pop("budget", max(1, int(whole * (way.share or 1.0))))
        self.context, self.meter = rk.memory_budget(self.bytes, **options), Meter()

    def __enter__(self) -> Online:
        """The one who counts comes first, and so sees what the runtime calls."""
        self.meter.__enter__()
        self.context.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        """Leaves both."""
        try:
            self.context.__exit__(*failure)
        finally:
            self.meter.__exit__(*failure)


class Onlooker(TorchDispatchMode):
    """Does nothing but be there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the operator."""
        return func(*args, **(kwargs or {}))


def run_online(program: Program, online: Online | Onlooker) -> Run:
    """Trains under a budget, or under what looks on."""
    return Run(program, lambda one: one, online).train()


def run_plain(program: Program, backend: str | None) -> Run:
    """Trains eagerly, or through one of PyTorch's own backends."""
    if backend is None:
        return Run(program, lambda one: one).train()
    make: Callable[[Any], Any] = lambda one: torch.compile(one, backend=backend, dynamic=program.dynamic)  # noqa: E731
    return Run(program, make).train()
