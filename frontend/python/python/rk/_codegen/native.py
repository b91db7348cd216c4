"""codegen ``rk``: a plan's kernels run on planned addresses of one arena, in rk's own runtime.

AOTAutograd gets two graphs of one call each, as from :mod:`rk._codegen.program`; behind both calls stands one
step (:mod:`rk._rk_runtime`), which keeps its values in its arena from forward to backward. What forward saves
for backward are the inputs and outputs that backward will read, so that PyTorch notices when somebody changes
them in between, what may change unnoticed (law S9), and two numbers that say which run is meant:

* The *ticket* is saved as any tensor is, so hooks on saved tensors see it and may replace it.
* The *keeper* lies on autograd's node, where no hook sees it. When it goes without a backward pass, the
  arena is free.

``torch.utils.checkpoint`` drops what is saved and runs forward again when it is needed. Then there is nothing
to keep: the run lives as long as the storage of its ticket, and backward belongs to the run whose ticket
comes back. Under any other hooks (which copy, compress, move to another memory) the keeper says which run is
meant, and backward reads the inputs that the hooks give back.

Outputs and gradients are allocated by PyTorch's allocator when they are made: they are the caller's.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._C._aoti import alloc_tensors_by_stealing_from_void_ptrs as stolen  # the one for one tensor leaks
from torch._C._aoti import unsafe_alloc_void_ptrs_from_tensors as handles_of
from torch.utils._mode_utils import no_dispatch

from rk import _rk_runtime
from rk._codegen import saved_hooks
from rk._graph import joint, loans
from rk._graph.made_up import real_tensors
from rk._graph.step import Step
from rk._plan.schedule import Schedule
from rk.errors import CompileError, ExecutionError

_TICKETS = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a step took."""

    arena: int
    """Bytes of the arena."""
    peak: int
    """The most bytes of it that were in use at once."""
    placed: int
    """Allocations in the arena."""
    outside: int
    """Allocations outside of it, of whatever thread, while the step ran."""
    moved: int
    """Results that a kernel made elsewhere, and that were copied to their place."""
    left: int
    """Allocations for results that left the step."""


class Program:
    """Forward and backward of one graph, ready to run; several runs may be between the two."""

    def __init__(self, step: Step, schedule: Schedule) -> None:
        """Raises CompileError when the step holds what the runtime cannot run."""
        self._step, self.schedule = step, schedule
        self._text = schedule.step
        late = [node.target for node in step.placeholders if joint.is_backward_only(node)]
        others = [str(one) for one in late if "tangents" not in str(one)]
        if others:
            raise CompileError(f"codegen='rk' cannot hand {', '.join(others)} to backward; codegen='fx' can")
        self.inputs = [node for node in step.placeholders if not joint.is_backward_only(node)]
        self._handed_out = [place for place, node in enumerate(step.outputs) if self._is_made(node)]
        self._idle = [self._machine()]
        self._busy: dict[int, tuple[_rk_runtime.Machine, bool]] = {}
        """Runs between forward and backward by their number, each with whether hooks have its inputs."""
        machine = self._idle[0]
        self.last = machine
        self._seen = False
        self._read_arguments(machine)
        self._read_results(machine)
        self._updated = sorted(step.updated())
        self.first_activation = len(step.outputs) + len(self.saved) + len(self.saved_outputs) + 1
        """Where the keeper is among the results of forward."""
        self.forward, self.backward = _boxed(self._forward), _boxed(self._backward)

    def _machine(self) -> _rk_runtime.Machine:
        return _rk_runtime.Machine(self._text, len(self._handed_out))

    @staticmethod
    def _is_made(node: Any) -> bool:
        """Whether the step has this result: a number has not, nor what is left undefined."""
        if not isinstance(node, fx.Node):
            return False
        return node.op == "get_attr" or joint.tensor_of(node) is not None

    def _read_arguments(self, machine: _rk_runtime.Machine) -> None:
        """Where each argument of the step comes from: a place among the inputs, or a tensor."""
        places = {str(node.target): place for place, node in enumerate(self.inputs)}
        with real_tensors():
            self._constants: dict[str, torch.Tensor] = {
                "outside": torch.empty(0, dtype=torch.int8, device="cpu")
            }
        for node in self._step.nodes:
            if node is not None and node.op == "get_attr":
                self._constants[node.target] = getattr(self._step.gm, node.target)
        self._sources = [places.get(name, name) for name in machine.arguments]
        self._late = [self._sources[argument] for argument in machine.read_late]
        late = [place for place in self._late if isinstance(place, int)]
        self._viewed = [place for place in late if self.inputs[place] in self._step.loans.viewed]
        """The inputs that backward reads where they were, whatever the caller gives them."""
        lent = self._step.loans.arguments
        self.saved = [place for place in late if self.inputs[place] not in lent]
        """The inputs that backward reads and must find unchanged."""
        self.unchecked = [place for place in late if self.inputs[place] in lent]
        """The inputs that backward reads as the caller leaves them."""
        self.saved_outputs = sorted(self._step.loans.checked_outputs.intersection(self._handed_out))
        """The outputs that backward reads and must find unchanged."""

    def _read_results(self, machine: _rk_runtime.Machine) -> None:
        first = len(self._handed_out) + len(self._step.tangents)
        places = {str(node.target): place for node, place in self._step.places.items()}
        self._gradients = [places[name] for name in machine.results[first:]]

    def _forward(self, args: list[Any]) -> list[Any]:
        given = {place: args[place].detach() for place in self._viewed}
        tensors = [
            given.get(one, args[one]) if isinstance(one, int) else self._constants[one]
            for one in self._sources
        ]
        if not self._seen:
            self._look_at(tensors)
        machine = self._idle.pop() if self._idle else self._machine()
        try:
            made = machine.forward(handles_of(tensors))
        except BaseException as error:
            self._idle.append(machine)
            raise _with_remedy(error) from None
        del tensors, given
        torch.autograd.graph.increment_version([args[place] for place in self._updated])
        number, (hooked, recomputed) = next(_TICKETS), saved_hooks.installed()
        if hooked:
            # They may be there to let go of what is saved.
            machine.release()
        numbers = (number, 0 if recomputed else number)
        ticket, keeper = (torch.tensor(one, device="cpu") for one in numbers)
        self._busy[number], self.last = (machine, hooked), machine
        owner = ticket if recomputed else keeper
        weakref.finalize(owner.untyped_storage(), self._give_up, number).atexit = False
        results = list(self._step.outputs)
        for place, one in zip(self._handed_out, _tensors(made), strict=True):
            node = self._step.outputs[place]
            results[place] = args[self._step.places[node]] if node.op == "placeholder" else one
        saved = [args[place] for place in self.saved]
        saved += [results[place] for place in self.saved_outputs]
        unchecked = [args[place] for place in self.unchecked]
        args.clear()
        return [*results, *saved, ticket, keeper, *unchecked]

    def _look_at(self, tensors: list[torch.Tensor]) -> None:
        """Before the first run: PyTorch traces tensors of some layouts (MKLDNN) as if they were strided."""
        for source, tensor in zip(self._sources, tensors, strict=True):
            if tensor.layout is not torch.strided:
                name = self.inputs[source].target if isinstance(source, int) else source
                raise ExecutionError(
                    f"the argument {name} has the layout {tensor.layout}: with codegen='rk' a step takes "
                    "strided tensors; codegen='fx' hands it to PyTorch's operators as it is"
                )
        self._seen = True

    def _backward(self, args: list[Any]) -> list[Any]:
        place = len(self.saved) + len(self.saved_outputs)
        (ticket, keeper), behind = args[place : place + 2], args[place + 2 :]
        late = dict(zip(self.saved, args, strict=False))
        late.update(zip(self.unchecked, behind, strict=False))
        tangents = behind[len(self.unchecked) :]
        # Before they go, and their arena with them.
        machine, hooked = self._busy.pop(keeper.item() or ticket.item(), (None, False))
        args.clear()
        if machine is None:
            raise ExecutionError(
                "backward has run already, and its values are gone: with codegen='rk' a graph is run "
                "backward once (no retain_graph=True, no second derivatives); codegen='fx' keeps them"
            )
        try:
            if hooked:
                self._bring(machine, late)
            del behind, late
            made = machine.backward(handles_of(tangents))
        except ExecutionError as error:
            raise _with_remedy(error) from None
        finally:
            self._put_back(machine)
        results: list[Any] = [None] * len(self._step.gradients)
        for place, one in zip(self._gradients, _tensors(made), strict=True):
            results[place] = one
        return results

    def _bring(self, machine: _rk_runtime.Machine, given: dict[int, torch.Tensor]) -> None:
        """Hands over what hooks have made of the inputs that backward reads."""
        late = [given[one] if isinstance(one, int) else self._constants[one] for one in self._late]
        try:
            machine.bring(handles_of(late))
        except ExecutionError as error:
            machine.abandon()
            raise ExecutionError(
                f"a hook on saved tensors has changed what backward reads: {error}; codegen='fx' takes what "
                "hooks give back as it is"
            ) from None

    def _give_up(self, number: int) -> None:
        """Nobody holds the run any more. If backward has not run, it never will."""
        machine, _ = self._busy.pop(number, (None, False))
        if machine is not None:
            machine.abandon()
            self._put_back(machine)

    def _put_back(self, machine: _rk_runtime.Machine) -> None:
        # One arena is what the budget is for; others were made because several runs were under way at once.
        if not self._idle:
            self._idle.append(machine)

    def measured(self) -> Measured:
        """What the last step took."""
        return Measured(self.last.arena_bytes, *self.last.measured())

    def modules(self) -> list[fx.GraphModule]:
        """The graphs of one call that AOTAutograd reads."""
        fake = next(tensor for node in self.inputs if (tensor := joint.tensor_of(node)) is not None)
        with fake.fake_mode:
            marks = [{"val": torch.empty((), dtype=torch.int64, device="cpu")} for _ in range(2)]
        # AOTAutograd puts it on the node instead of giving it to autograd, which would show it to hooks.
        # Compiled autograd does not look there, and runs no hooks.
        marks[1]["saved_tensor_with_no_vc_check"] = not saved_hooks.autograd_is_compiled()
        made = [self._outside_forward(marks), self._outside_backward(marks)]
        self._lengths = [len(module.graph.nodes) for module in made]
        return made

    def untouched(self, gm: fx.GraphModule, name: str) -> bool:
        """Whether nothing has been added since to what :meth:`modules` gave."""
        return len(gm.graph.nodes) == self._lengths[("forward", "backward").index(name)]

    def _outside_forward(self, marks: list[dict[str, Any]]) -> fx.GraphModule:
        graph = fx.Graph()
        inputs = [_placeholder(graph, node) for node in self.inputs]
        call = graph.create_node("call_function", _whole("forward", self.forward), tuple(inputs))
        outputs: list[Any] = list(self._step.outputs)
        for place in self._handed_out:
            node = self._step.outputs[place]
            if node.op == "placeholder":
                outputs[place] = inputs[self._step.places[node]]
            else:
                outputs[place] = _pick(graph, call, place, node.meta)
        saved = [inputs[place] for place in self.saved] + [outputs[place] for place in self.saved_outputs]
        unchecked = [inputs[place] for place in self.unchecked]
        for node in (*saved, *unchecked):
            node.meta[loans.UNCHECKED] = node in unchecked
        first = self.first_activation - 1
        ticket, keeper = (_pick(graph, call, first + place, mark) for place, mark in enumerate(marks))
        graph.output((*outputs, *saved, ticket, keeper, *unchecked))
        return fx._lazy_graph_module._make_graph_module({}, graph)

    def _outside_backward(self, marks: list[dict[str, Any]]) -> fx.GraphModule:
        graph = fx.Graph()
        inputs = [_placeholder(graph, self.inputs[place]) for place in self.saved]
        inputs += [_placeholder(graph, self._step.outputs[place]) for place in self.saved_outputs]
        for name, mark in zip(("rk_ticket", "rk_keeper"), marks, strict=True):
            inputs.append(graph.create_node("placeholder", name, name=name))
            inputs[-1].meta.update(mark)
        inputs.extend(_placeholder(graph, self.inputs[place]) for place in self.unchecked)
        inputs.extend(_placeholder(graph, node) for node in self._step.tangents)
        call = graph.create_node("call_function", _whole("backward", self.backward), tuple(inputs))
        outputs: list[Any] = list(self._step.gradients)
        for place in self._gradients:
            outputs[place] = _pick(graph, call, place, self._step.gradients[place].meta)
        graph.output(tuple(outputs))
        return fx._lazy_graph_module._make_graph_module({}, graph)


def _tensors(handles: list[Any]) -> list[torch.Tensor | None]:
    """The tensors behind handles, which are used up."""
    tensors = iter(stolen([one for one in handles if one is not None]))
    return [None if one is None else next(tensors) for one in handles]


def _placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
    target = node.target if node.op == "placeholder" else node.name
    made = graph.create_node("placeholder", target, name=node.name)
    made.meta.update(node.meta)
    return made


def _pick(graph: fx.Graph, call: fx.Node, place: int, meta: dict[str, Any]) -> fx.Node:
    made = graph.create_node("call_function", operator.getitem, (call, place))
    made.meta.update(meta)
    return made


def _whole(name: str, run: Callable[[list[Any]], Sequence[Any]]) -> Callable[..., Any]:
    def whole(*args: Any) -> Sequence[Any]:
        return run(list(args))

    whole.__name__ = whole.__qualname__ = f"rk_{name}"
    return whole


def _boxed(run: Callable[[list[Any]], Sequence[Any]]) -> Callable[[list[Any]], Sequence[Any]]:
    def boxed(args: list[Any]) -> Sequence[Any]:
        if torch.compiler.is_compiling():
            # Compiled autograd traces it.
            return run(args)
        # A mode that looks into compiled code may keep what it sees (a selective checkpoint around it does):
        # values in an arena, which the next run overwrites.
        with no_dispatch():
            return run(args)

    boxed._boxed_call = True
    return boxed


def _with_remedy(error: BaseException) -> BaseException:
    """What an operator says that fails, and what to do; any other error as it is."""
    if not isinstance(error, ExecutionError) or "codegen='fx'" in str(error):
        return error
    if "instead of the planned" in str(error):
        return ExecutionError(f"{error}. codegen='fx' takes results as their kernels make them")
    return ExecutionError(f"{error}. If the step runs without rk, it runs with codegen='fx' as well")
