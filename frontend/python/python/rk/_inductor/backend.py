"""One joint graph, planned on Inductor's kernels and compiled as planned.

Where PyTorch's own partition is within the budget, it is compiled as Inductor would: nothing is pinned.
Otherwise the plan is. Either way the peak is known before a kernel is compiled, and what exceeds the budget
is planned again for less.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config
from torch import fx
from torch._inductor.virtualized import V

from rk._graph import joint
from rk._graph.copies import copied
from rk._inductor import costs, lowering, pinning
from rk._inductor.hooks import Compiling, compiling
from rk._inductor.partitioner import Partitioner
from rk._inductor.problem import Problem, Unreadable
from rk._inductor.replay import Half, Replay, Storage
from rk._inductor.writer import Writer
from rk._plan import cache
from rk._plan import device as devices
from rk._plan.schedule import Schedule
from rk.errors import BudgetError, CompileError

log = logging.getLogger(__name__)
Run = Callable[[list[Any]], Any]
ATTEMPTS = 8
"""How many plans are tried for one budget, all of them while compiling."""


class Planned:
    """A plan of a joint graph as two graphs, and what Inductor makes of them in bytes."""

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        budget: int,
        inside: int,
        *,
        whole: bool = False,
        resident: int = 0,
    ) -> None:
        """``budget`` is what the step may take in scope ``activations``, ``inside`` what the caller needs
        between forward and backward. ``whole``: it is all that the step takes if nothing runs again, whatever
        that is. ``resident``: what the user's budget counts besides.
        """
        self._problem = problem
        self.step, self.halves, self.schedule = problem.step, problem.halves, schedule
        self.uncounted = problem.uncounted
        self.fingerprint = problem.fingerprint
        self.budget, self.inside, self.resident = budget, inside, resident
        self.device = problem.device
        self.pinned = any(again for _, again in schedule.runs)
        self._whole = whole
        self.halves_replayed: list[Half] = []
        self.left = 0
        """Bytes that forward leaves to its caller, with what is saved."""
        self._folder, self._cost_model = problem.options.cache_folder(), problem.options.cost_model

    @functools.cached_property
    def modules(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Forward and backward, as they are to be compiled."""
        if not self.pinned:
            forward, backward = self.halves.original
        else:
            writer = Writer(self.halves, self.schedule.runs)
            forward, backward = writer.modules()
        # The halves may be those of an earlier compilation, and what is compiled is changed.
        mode = lowering.fake_mode(self.step.gm)
        return lowering.in_mode(forward, mode), lowering.in_mode(backward, mode)

    @property
    def saved(self) -> list[str]:
        """The arguments of backward that forward hands it, by name."""
        _, backward = self.modules
        names = (node.name for node in backward.graph.find_nodes(op="placeholder"))
        return [name for name in names if name not in self._late]

    @property
    def first_activation(self) -> int | None:
        """Which result of forward shows, as long as it lives, that backward has not run; None if nothing is
        saved.
        """
        forward, _ = self.modules
        for place, node in enumerate(lowering.outputs_of(forward)):
            if place >= self.halves.outputs and isinstance(node, fx.Node) and node.op == "call_function":
                return place
        return None

    @functools.cached_property
    def _late(self) -> set[str]:
        return {node.name for node in self.halves.late}

    @functools.cached_property
    def key(self) -> str:
        """Names the plan."""
        return hashlib.sha256(repr((self.schedule.runs, self.fingerprint)).encode()).hexdigest()[:24]

    @functools.cached_property
    def foreseen(self) -> int:
        """What Inductor's code is expected to add up to before it is made. The planner's peak is an upper
        bound of it where the plan is pinned: it counts results that nobody reads.
        """
        return self._problem.written_peak(self.schedule, self.inside, pinned=self.pinned)

    @property
    def peak(self) -> int:
        """The most bytes that the step takes, as far as it has been replayed."""
        return max(self.left + self.inside, *(half.peak for half in self.halves_replayed), 0)

    @property
    def accumulating(self) -> int:
        """The most bytes of the backward pass where its gradients are added to others, and count until then;
        without those of the caller.
        """
        return max(self.schedule.accumulating, self.halves_replayed[-1].accumulating - self.schedule.handed)

    @property
    def holder(self) -> str:
        """What runs when the step takes the most."""
        return max(self.halves_replayed, key=lambda half: half.peak).holder

    def keep(self, schedule: Schedule, more: int) -> None:
        """Keeps a plan of this graph for whoever asks for so many bytes more."""
        problem, room = self._problem, self.budget + more
        found = dataclasses.replace(schedule, budget=room + problem.standing)
        problem.keep(found, room + self.resident, self.inside)

    def settle(self) -> None:
        """Keeps the replayed peak beside Inductor's code, which another process finds without a replay."""
        name = f"replay-{self.key}{'' if self.pinned else '-free'}"
        if len(self.halves_replayed) == 2:
            halves = [[half.peak, half.holder, half.accumulating] for half in self.halves_replayed]
            cache.write(self._folder, name, {"halves": halves, "left": self.left})
            return
        known = cache.read(self._folder, name)
        if known is None:
            raise Unreplayed
        self.halves_replayed = [Half(*numbers) for numbers in known["halves"]]
        self.left = known["left"]
        self._check()

    def _check(self) -> None:
        if self._whole and not self.pinned:
            # On the CPU Inductor allocates for several kernels at once, of which the plan knows nothing.
            self.budget = max(self.budget, self.peak)
        # If no plan is found that takes less, the user is told what the whole step takes.
        is_early = self.pinned and len(self.halves_replayed) < 2
        # Of a plan for the smallest budget that was found nothing better is known.
        is_last = self.pinned and self.schedule.unmet is not None
        if self.peak > self.budget and not is_early and not is_last:
            raise Exceeded(self.peak - self.budget, self.holder)

    def replay(self, lines: Sequence[Any], *, is_backward: bool) -> None:
        """Reads a pass from its wrapper; raises :class:`Exceeded` if the step takes more than the budget, and
        is pinned, when both passes are known.
        """
        replay = self._replay()
        half = self._backward(replay, lines) if is_backward else replay.half(lines)
        self._takes(half, is_backward=is_backward)

    def pass_by(self, graph: fx.GraphModule, *, is_backward: bool) -> None:
        """A pass without calls hands on what is there."""
        half = Half(holder="the hand-over", results=[None] * len(lowering.outputs_of(graph)))
        if is_backward and self.halves_replayed:
            found, held = self._there(self._replay())
            half.peak = sum({id(one): one.size for one in (*held, *(one for _, one in found))}.values())
        half.accumulating = half.peak
        self._takes(half, is_backward=is_backward)

    def _replay(self) -> Replay:
        about = {"device": self.device, "folder": self._folder, "model": self._cost_model}
        workspace = functools.partial(costs.workspace_of, **about)
        return Replay(devices.alignment(self.device), workspace)

    def _takes(self, half: Half, *, is_backward: bool) -> None:
        if not is_backward:
            self.left = sum({id(one): one.size for one in half.results if one is not None}.values())
            self.halves_replayed = []
        self.halves_replayed.append(half)
        name = "backward" if is_backward else "forward"
        log.info("rk: %s takes %d bytes (in %s), planned %d", name, half.peak, half.holder, self.foreseen)
        self._check()

    def _backward(self, replay: Replay, lines: Sequence[Any]) -> Half:
        if not self.halves_replayed:
            # Forward was compiled before, by another process: what it leaves is as planned.
            return Half()
        found, held = self._there(replay)
        return replay.half(lines, found=found, held=held, uncounted=self._kept())

    def _kept(self) -> list[int]:
        """Which results of backward become gradients of parameters as they are. A copy is made of one in
        other strides, while it is there.
        """
        results = V.graph.graph_outputs
        places = [place for place in self.uncounted if place < len(results)]
        parameters = [joint.tensor_of(self.step.placeholders[place]) for place in places]
        return [
            place
            for place, parameter in zip(places, parameters, strict=True)
            if lowering.is_kept(results[place], parameter)
        ]

    def _there(self, replay: Replay) -> tuple[list[tuple[str, Storage]], list[Storage]]:
        """What backward finds of forward by name, and what the caller holds meanwhile."""
        forward = self.halves_replayed[0]
        results = forward.results
        found = [
            (name, one)
            for name, one in zip(self.saved, results[self.halves.outputs :], strict=True)
            if one is not None
        ]
        held = [one for one in results[: self.halves.outputs] if one is not None]
        tangents = [
            Storage(replay.rounded(_tensor(node).untyped_storage().nbytes()), set())
            for node in self.halves.late
            if _tensor(node) is not None
        ]
        return found, [*held, *tangents]


def _tensor(node: fx.Node) -> torch.Tensor | None:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


class Exceeded(Exception):
    """What Inductor would allocate is more than the budget."""

    def __init__(self, bytes: int, holder: str) -> None:
        """``bytes`` too many, while ``holder`` runs."""
        super().__init__(f"{bytes} bytes above the budget while {holder} runs")
        self.bytes, self.holder = bytes, holder


class Unreplayed(Exception):
    """Inductor's code came from its cache, and nobody kept what it allocates."""


class Compiler:
    """Compiles one graph of Dynamo."""

    def __init__(
        self,
        plan: Callable[..., Planned],
        forward: Callable[[Run], Run],
        backward: Callable[[Run], Run],
    ) -> None:
        """``plan`` makes a plan of a joint graph for so many bytes less than its budget; ``forward`` and
        ``backward`` wrap what runs.
        """
        self.plan, self.wraps = plan, {False: forward, True: backward}
        self.planned: Planned | None = None
        self._less, self._pins, self._cached = 0, False, True
        self._exceeded: dict[str, Exceeded] = {}
        """By pinned plan, what it took too much."""
        self._schedules: dict[str, Schedule] = {}
        """Those plans."""
        self._failed: Exception | None = None
        """What a hook raised; Inductor would wrap it."""

    def compiled(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """What runs the graph."""
        for _ in range(ATTEMPTS):
            self._failed = None
            try:
                run = self._attempt(gm, inputs)
            except Exception as error:
                if self._failed is None:
                    if self.planned is None or not self.planned.pinned:
                        raise
                    raise Unreadable(f"pinned, they do not compile: {error}") from error
                if isinstance(self._failed, BudgetError) and self._exceeded:
                    # Asked for less, the planner knows of nothing.
                    break
                if not isinstance(self._failed, (Exceeded, Unreplayed)):
                    raise self._failed from None
            else:
                self._tell_exceeded()
                return run
            if isinstance(self._failed, Unreplayed):
                self._cached = False
                continue
            log.info("rk: planning again: %s", self._failed)
            if self.planned.pinned:
                self._less += self._failed.bytes
                self._exceeded[self.planned.key] = self._failed
                self._schedules[self.planned.key] = self.planned.schedule
            self._pins = True
        raise self._beyond()

    def _tell_exceeded(self) -> None:
        planned = self.planned
        if planned is not None and planned.peak > planned.budget:
            warnings.warn(
                f"rk: with Inductor's kernels the step takes {planned.peak + planned.resident} bytes while "
                f"{planned.holder} runs, and its budget is {planned.budget + planned.resident}: this is the "
                "plan for the smallest budget that was found (on_infeasible='best')",
                stacklevel=2,
            )

    def _beyond(self) -> BudgetError:
        """The error that says what the best of all plans takes."""
        key, best = min(self._exceeded.items(), key=lambda one: one[1].bytes)
        self.planned.keep(self._schedules[key], best.bytes)
        budget = self.planned.budget + self.planned.resident
        error = BudgetError(
            f"with Inductor's kernels the step does not stay within {budget} bytes: the best plan that was "
            f"found takes {best}. {budget + best.bytes} bytes are known to do; codegen='fx' keeps every "
            "budget that it accepts"
        )
        error.budget_bytes, error.smallest_bytes = budget, budget + best.bytes
        error.lower_bound_bytes, error.holder = 0, best.holder
        return error

    def _attempt(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx

        with (
            torch._inductor.config.patch(custom_partitioner_fn=Partitioner(self._partition)),
            torch._functorch.config.patch(
                # It would take the partition of another budget from its cache.
                enable_autograd_cache=False,
                # The peak is known, and kept, before the first step.
                force_non_lazy_backward_lowering=True,
            ),
        ):
            # Inductor keeps what it is given, and the graph may have to be compiled again.
            run = compile_fx(copied(gm), list(inputs), inner_compile=self._inner)
        if self.planned is not None:
            self._hooked(self.planned.settle)
        return run

    def _hooked(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CompileError as error:
            self._failed = error if isinstance(error, Unreadable) else Unreadable(str(error))
            raise
        except Exception as error:
            self._failed = error
            raise

    def _partition(
        self, gm: fx.GraphModule, _inputs: Any, **about: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        def planned() -> tuple[fx.GraphModule, fx.GraphModule]:
            self.planned = self.plan(gm, self._less, self._pins, **about)
            if self.planned.schedule.unmet is None and self.planned.key in self._exceeded:
                raise self._exceeded[self.planned.key]
            return self.planned.modules

        return self._hooked(planned)

    def _inner(self, graph: fx.GraphModule, inputs: Sequence[Any], **about: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.utils import get_donated_idxs

        planned, late = self.planned, bool(about.get("is_backward"))
        if about.get("is_inference") or planned is None:
            return compile_fx_inner(graph, inputs, **about)
        # Inductor's cache is keyed by what the module holds, and does not know by itself which saved values
        # may be overwritten: kernels that do would be taken for a graph whose values are the caller's, too.
        graph.rk_donated = get_donated_idxs() if late else None

        def lines(code: Sequence[Any]) -> None:
            self._hooked(lambda: planned.replay(code, is_backward=late))

        with contextlib.ExitStack() as stack:
            stack.enter_context(compiling(Compiling(lines, pinned=planned.pinned)))
            if not self._cached:
                stack.enter_context(torch._inductor.config.patch(fx_graph_cache=False))
            if planned.pinned:
                stack.enter_context(torch._inductor.config.patch(pinning.options(planned.key)))
                stack.enter_context(V.set_choices_handler(pinning.Choices()))
                about["layout_opt"] = planned.halves.forward.layout
                lowering.leave_arguments(graph)
            code = compile_fx_inner(graph, inputs, **about)
        if not hasattr(code, "current_callable"):
            # A pass without calls, such as the gradient of a sum: there is nothing to generate.
            self._hooked(lambda: planned.pass_by(graph, is_backward=late))
            return self.wraps[late](code)
        code.current_callable = self.wraps[late](code.current_callable)
        return code
