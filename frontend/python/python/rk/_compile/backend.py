"""The backend of ``torch.compile``: a thin hook between Dynamo, AOTAutograd and the planner.

PyTorch finds :func:`rk` through the entry point group ``torch_dynamo_backends``; nothing needs to be
imported. Calls of what is compiled are watched (:mod:`rk._compile.governed`), and a graph with symbolic sizes
is compiled once for every set of sizes that it meets (:mod:`rk._compile.sizes`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop

from rk import _torch
from rk._codegen import comparison, emit, limits, program
from rk._compile import governed, sizes, unseen
from rk._graph import joint, normalize, regions, settings, unplannable
from rk._graph.step import Step
from rk._plan import schedule, shares
from rk._plan.options import Options
from rk._plan.schedule import Problem, Schedule
from rk._run import fixed, names, variants
from rk._run.classes import GraphClass
from rk.errors import BudgetError, CompileError, OptionError


def rk(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one graph of Dynamo; called by ``torch.compile``."""
    if mode is not None and mode != "default":
        raise OptionError(f"rk has no modes (mode={mode!r}); say options={{'budget': '2GiB'}}")
    checked = Options.parse(options)
    checked.check_runs()
    reason = getattr(gm, "compile_subgraph_reason", None)
    trains = sizes.trains(gm, example_inputs)
    if trains:
        regions.write_out(gm)
        sizes.settle_numbers(gm, example_inputs)
        if sizes.is_symbolic(gm, example_inputs) or sizes.reads_numbers(gm):
            return sizes.BySizes(gm, lambda one: Compiled(one, checked, reason), example_inputs)
    compiled = Compiled(gm, checked, reason)
    compiled.compile(example_inputs, trains=trains)
    return compiled


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Keeps Python's collector of cycles waiting. It would walk through all that Dynamo has made, again and
    again, which takes three times as long as all else when a plan is on disk.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


class Planned:
    """What one plan of a graph is run by."""

    program: Any = None
    """See :attr:`Compiled._program`."""
    verifier: comparison.Verifier | None = None
    kernels: settings.Kernels

    def boxed(self, gm: fx.GraphModule, inputs: Sequence[Any], name: str) -> Callable[..., Any]:
        """What runs a pass: the program itself, unless something was added around it."""
        if self.program is not None and self.program.untouched(gm, name):
            return getattr(self.program, name)
        return boxed_nop(gm, inputs)


class Compiled:
    """One graph of Dynamo, compiled: with static sizes, or without a backward pass; planned again when its
    budget changes.
    """

    def __init__(self, gm: fx.GraphModule, options: Options, reason: Any) -> None:
        """``reason`` is Dynamo's account of why the graph ended."""
        self.gm, self.options = gm, options
        self.graph = GraphClass(options, reason, names.of(reason, gm.graph, governed.module()))
        self.schedule: Schedule | None = None
        """The plan; None for a graph without a backward pass."""
        self._run: Callable[..., Any] | None = None
        self._saved: int | None = None
        self._verifier: comparison.Verifier | None = None
        self._program: Any = None
        """What runs without AOTAutograd's graphs: :class:`rk._run.variants.Switch`, or with codegen
        ``rk`` :class:`rk._codegen.native.Program`.
        """
        self._kernels = settings.Kernels(torch.device("cpu"))
        """Those that the costs were measured on."""
        self.forecast: Any = None
        """Of a graph that Inductor's kernels are not planned of, :class:`rk._inductor.forecast.Forecast`."""

    def __call__(self, *args: Any) -> Any:
        """Runs the graph."""
        if self.forecast is not None:
            self.forecast.check()
        fixed.fit(self.graph, args)
        if self.graph.stale:
            self.graph.group.is_to_be_compiled()
            try:
                self.compile(args)
            except BaseException:
                # What was compiled before is not what was asked for.
                self.graph.stale = True
                raise
        if self.schedule is not None:
            governed.ran()
        return self._run(*args)

    def compile(self, inputs: Sequence[Any], *, trains: bool = True) -> None:
        """Lets AOTAutograd trace the graph, and plans it if it ``trains``. Otherwise what is compiled runs
        with all sizes that Dynamo has not found to be known.
        """
        self.graph.given = inputs
        try:
            self._compile(sizes.faked(inputs) if trains else inputs)
        finally:
            self.graph.given = ()
            if self.graph.group is not None:
                self.graph.group.forget_peak()

    def _compile(self, inputs: Sequence[Any]) -> None:
        if self.options.codegen == "inductor":
            if self.forecast is not None or not self._compile_kernelwise(inputs):
                self._compile_forecast(inputs)
            return
        # AOTAutograd asks for the backward pass when it first runs; the graph may have another plan by then.
        planned = Planned()
        self._run = aot_autograd(
            fw_compiler=functools.partial(self._forward, planned),
            bw_compiler=functools.partial(self._backward, planned),
            inference_compiler=boxed_nop,
            partition_fn=self._partition,
            keep_inference_input_mutations=True,
        )(self.gm, list(inputs))

    def _compile_kernelwise(self, inputs: Sequence[Any]) -> bool:
        """Plans Inductor's kernels; False, with a warning, if the graph cannot be read as kernels."""
        # It loads slowly.
        _torch.check("codegen='inductor'")
        from rk._inductor.backend import Compiler
        from rk._inductor.problem import Unreadable
        from rk._inductor.watch import Watch

        watch = Watch(lambda: compiler.planned)
        compiler = Compiler(
            self._plan_kernels,
            lambda run: self._with_forward(watch.forward(run)),
            lambda run: fixed.backward(self.graph, self._kernels.around(watch.backward(run))),
        )
        try:
            self._run = compiler.compiled(self.gm, inputs)
        except Unreadable as error:
            warnings.warn(
                f"rk: the kernels that Inductor would make of this graph cannot be planned ({error}), so its "
                "operators are planned one by one, and the peak of the plan is a forecast",
                stacklevel=2,
            )
            return False
        if compiler.planned is not None:
            # The plan knows kernels, and Inductor may allocate for several at once: what is planned for less
            # than was asked takes what was asked.
            takes = compiler.planned.accumulating
            self.schedule = dataclasses.replace(self.schedule, budget=self._asked, accumulating=takes)
            self.graph.base.schedule = self.schedule
        watch.begins()
        return True

    def _plan_kernels(
        self,
        gm: fx.GraphModule,
        less: int,
        pins: bool,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **_: Any,
    ) -> Any:
        """The plan of a joint graph for so many bytes less than its budget; ``pins`` says that it is pinned
        even where PyTorch's own partition would do.
        """
        from rk._inductor.backend import Planned as PlannedKernels
        from rk._inductor.problem import problem_of

        unplannable.check(gm.graph)
        static = joint.static(gm.graph, static_lifetime_input_indices, self.graph.given)
        step = Step(gm, num_fwd_outputs, static, replays=False)
        device = schedule.device_of(step)
        self._kernels = settings.Kernels(device)
        problem = problem_of(step, self.options, device)
        counts = self.options.scope == "total"
        if not less:
            self.schedule = self.graph.plan(problem, shares.budget_of(problem))
            self._asked = self.schedule.budget
        else:
            resident = self.schedule.resident if counts else 0
            self.graph.problem = problem
            asked = str(max(self._asked + resident - less, 1))
            self.schedule = self.graph.planned("tightened", asked, self.graph.asked[1])
        problem = self.graph.problem
        asked, inside = self.graph.asked
        whole = asked.endswith("%") and float(asked[:-1]) >= 100
        resident = problem.standing + (self.schedule.resident if counts else 0)
        room = self._asked - problem.standing
        planned = PlannedKernels(problem, self.schedule, room, inside, whole=whole, resident=resident)
        # What the calls of a step take together is known of plans that are compiled as they are.
        planned.pinned |= pins or inside > 0
        self._saved = planned.first_activation
        return planned

    def _compile_forecast(self, inputs: Sequence[Any]) -> None:
        """Plans operators one by one, and lets Inductor fuse them; the peak is measured afterwards."""
        from rk._inductor import forecast

        self.forecast = self.forecast or forecast.Forecast(self.options.on_infeasible == "error")
        self._run = forecast.compiled(
            self.gm,
            inputs,
            self._partition,
            self._with_forward,
            lambda run: fixed.backward(self.graph, self.forecast.backward(self._kernels.around(run))),
        )

    @_no_collections()
    def _partition(
        self,
        gm: fx.GraphModule,
        _inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **_: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Splits a joint graph into forward and backward, as a plan within the budget says."""
        unplannable.check(gm.graph)
        replays = self.options.codegen != "inductor"
        static = joint.static(gm.graph, static_lifetime_input_indices, self.graph.given)
        normalize.normalize(gm.graph, num_fwd_outputs, fuses=not replays)
        step = Step(gm, num_fwd_outputs, static, replays=replays)
        device = schedule.device_of(step)
        if device.type != "cpu":
            _torch.check("a GPU")
        if self.options.codegen == "rk":
            _torch.check("codegen='rk'")
            limits.check(step, device)
        self._refuse_rehearsals(step)
        if self.options.offload is not None and not program.suits(step):
            raise CompileError(
                "offload moves values of graphs that hand over to a backward pass and have no operators of "
                "higher order (cond, scan, a Triton kernel of the user's); leave offload out for this one"
            )
        self._kernels = settings.Kernels(device)
        problem = Problem(step, self.options, device)
        budget = shares.budget_of(problem)
        asked = None
        try:
            self.schedule = self.graph.plan(problem, budget)
        except BudgetError as error:
            if self.forecast is None or not error.smallest_bytes:
                raise
            # Fused, the step may need less than its operators one by one: the measurement will tell.
            asked = error.budget_bytes - (problem.resident if self.options.scope == "total" else 0)
            self.graph.asked = (str(error.smallest_bytes), 0)
            self.schedule = self.graph.plan(problem, budget)
        if self.forecast is not None:
            places = [] if self.options.scope == "device" else step.gradient_places()
            self.forecast.planned(self.schedule.budget if asked is None else asked, device, places)
        self._verifier = comparison.Verifier(step, device) if self.options.verify else None
        if self.options.codegen == "rk" and step.tangents:
            # It is linked to torch, and was built for one version of it.
            from rk._codegen import native

            self._program = native.Program(step, self.schedule)
            self._saved = self._program.first_activation
            return self._program.modules()
        if replays and program.suits(step):
            self._program = self.graph.switch()
            return self._program.modules()
        emitter = emit.Emitter(step, self.schedule.runs, moves=self.schedule.moves)
        self._saved = emitter.first_activation()
        return emitter.modules()

    def _refuse_rehearsals(self, step: Step) -> None:
        """What runs a step twice must not meet operators that run once."""
        native = self.options.codegen == "rk"
        unknown = step.unknown() if native or self.options.verify else []
        if unknown:
            asked = "codegen='rk'" if native else "verify=True"
            instead = "codegen='fx' does not" if native else "rk.verify trains copies"
            first = unknown[0].replace(".", "::", 1)
            raise CompileError(
                f"{asked} runs the first step twice, and nothing is known of {', '.join(unknown)}, so that "
                f"it runs once: rk.allow_recompute('{first}') says that it may run again; {instead}"
            )

    def _forward(self, planned: Planned, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # It comes right after its partition.
        planned.program, planned.verifier, planned.kernels = self._program, self._verifier, self._kernels
        run = planned.boxed(gm, inputs, "forward")
        if planned.verifier is not None:
            run = functools.partial(planned.verifier.run_forward, run)
        return self._with_forward(run)

    def _with_forward(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The forward pass as it runs: its group knows of it, one way or the other."""
        run = self._kernels.around(run)
        run = run if self.forecast is None else self.forecast.forward(run)
        return variants.boxed(run) if self.graph.switches else fixed.forward(self.graph, run, self._saved)

    def _backward(self, planned: Planned, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        run = planned.kernels.around(planned.boxed(gm, inputs, "backward"))
        run = run if self.graph.switches else fixed.backward(self.graph, run)
        if planned.verifier is None:
            return run

        def backward(args: list[Any]) -> Any:
            return planned.verifier.run_backward(run, args)

        backward._boxed_call = True
        return backward


governed.install(rk)
unseen.install()
