"""The plans of one class as code: each has its own two passes, and one compiled callable runs any of
them.

AOTAutograd compiles the passes of the first plan, with two more saved tensors, ticket and keeper. What
another plan hands to its backward pass goes into the slots of the first where it is the same value, and
waits on the instance where there is no slot.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rk._codegen import emit, program, saved_hooks
from rk._graph import joint, loans, random_state, switches
from rk._graph.step import Step
from rk._plan.schedule import Schedule
from rk._run import less
from rk.errors import ExecutionError

Write = Callable[..., dict[str, Any]]
Key = tuple[str, Any]
"""What is saved, as :func:`rk._codegen.program.written` names it."""
_NUMBERS = itertools.count(1)
_keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph


@dataclasses.dataclass
class Variant:
    """One plan of a class."""

    name: str
    schedule: Schedule
    make: Callable[[], Code] | None
    """Writes its passes; None for what only the compiled callable itself can run."""
    made_by: tuple[Any, ...] = ("compiled",)
    """The method of its class that makes it, and the arguments: what another process makes it by."""

    @functools.cached_property
    def code(self) -> Code:
        """Its passes, written when it first runs."""
        return self.make()

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Held, the most in forward and in backward, in bytes, and the time: what a choice is made by."""
        plan = self.schedule
        if plan.step is not None:
            # An arena does not shrink in between, and what leaves the step lies beside it.
            return plan.arena, plan.peak, plan.peak, plan.time
        return plan.held, plan.forward, plan.backward, plan.time

    @property
    def unseen(self) -> int:
        """Bytes of its arena in which there is no value while the caller is busy."""
        plan = self.schedule
        return 0 if plan.step is None else max(plan.arena - plan.held, 0)


class Code:
    """The two passes of a plan, and what goes from the one to the other."""

    def __init__(self, step: Step, about: dict[str, Any], write: Write) -> None:
        """``about`` is what ``write`` gives: :func:`rk._codegen.program.recorded` for the plan."""
        self._step, self._write = step, write
        made = program.Program(step, about)
        self.forward, self.backward = made.forward, made.backward
        self.keys: list[Key] = [tuple(one) for one in about["forward"]["outputs"][len(step.outputs) :]]
        checked = len(self.keys) - about["forward"]["unchecked"] - about["forward"]["opaque"]
        self.checked = frozenset(self.keys[:checked])
        self.places = frozenset(self.keys)
        self.remembered = frozenset(about["remembered"])
        """The random operators for which a forward pass remembers the generator."""
        self._replays: bool = about["replays"]
        """Whether the backward pass runs what is forward's."""
        self.callers: dict[Key, int] = {}
        """What is the caller's as well, inputs and outputs, with its bytes: a plan's ``held`` does not count
        it, and it lives at least as long as it is saved.
        """
        self.copied: dict[Key, int] = {}
        """What is a copy of an argument (law S9), with its bytes."""
        self.own: set[Key] = set()
        """What nobody else has."""
        self._outlines: list[Any] = []
        """Shape, type and device of each, as far as it is a tensor."""
        self.viewed: set[Key] = set()
        """The inputs that backward reads where they were, whatever memory the caller gives them."""
        self._tell_apart(step)
        self.viewed_places = [place for place, key in enumerate(self.keys) if key in self.viewed]

    def stand_in(self, place: int) -> torch.Tensor:
        """What looks like a saved tensor, and has the memory of one element."""
        shape, dtype, device = self._outlines[place]
        return torch.empty((), dtype=dtype, device=device).expand(shape)

    def run_backward(self, args: list[Any], values: list[Any], relevant: switches.Relevant) -> Sequence[Any]:
        """The backward pass after a forward pass with these values of PyTorch's switches."""
        if not self._replays or values == relevant.values():
            return self.backward(args)
        with switches.of_forward(relevant.setting(values)):
            return self._switched(args)

    @functools.cached_property
    def _switched(self) -> program.Run:
        return program.Program(self._step, self._write(switched=True)).backward

    def _tell_apart(self, step: Step) -> None:
        named = step.named
        inputs = [node for node in step.placeholders if not joint.is_backward_only(node)]
        resident = _storages([one for one in inputs if one in step.static])
        resident |= _storages(step.gm.graph.find_nodes(op="get_attr"))
        callers = _storages([*inputs, *step.outputs]) - resident
        for key in self.keys:
            kind, value = key
            if kind == "input" and inputs[value] in step.loans.viewed:
                self.viewed.add(key)
            if kind == "node" and named[value].meta.get(loans.COPY):
                self.copied[key] = _tensor(named[value]).untyped_storage().nbytes()
            made = kind in ("state", "host")
            tensor = None if made else _tensor(inputs[value] if kind == "input" else named[value])
            storage = None if tensor is None else joint.storage_of(tensor)
            looks = emit.meta_of(kind, named[value])["val"] if made else tensor
            outline = None if looks is None else (tuple(map(int, looks.shape)), looks.dtype, looks.device)
            self._outlines.append(outline)
            if storage in callers:
                self.callers[key] = tensor.untyped_storage().nbytes()
            elif kind == "node" and tensor is not None and storage not in resident:
                self.own.add(key)


def _storages(nodes: Sequence[Any]) -> set[int]:
    return {joint.storage_of(one) for one in map(_tensor, nodes) if one is not None}


def _tensor(node: Any) -> torch.Tensor | None:
    return joint.tensor_of(node) if isinstance(node, torch.fx.Node) else None


class Places:
    """Where what a plan saves goes, in a class whose first plan is compiled."""

    def __init__(self, code: Code, base: Code) -> None:
        """``code`` are the passes of the plan, ``base`` those of the first."""
        mine = {key: place for place, key in enumerate(code.keys)}
        theirs = {key: place for place, key in enumerate(base.keys)}
        self.in_slots = [mine.get(key) for key in base.keys]
        """Per slot, the place among what is saved; None if it stays empty."""
        self.slots = [theirs.get(key) for key in code.keys]
        """Per saved value, its slot; None if it has none."""
        self.beside = [(key, place) for key, place in mine.items() if key not in theirs]
        """What has no slot, with its place among what is saved."""
        self.checked = [key for key, _ in self.beside if key in code.checked]


class Instance:
    """One call of a class, from its forward half on."""

    closed = False
    """Nothing is held any more."""
    place = -1
    """Which forward half of the step it is."""
    finds_gradients = False
    """When it begins, there are gradients, to which its own would be added beyond the budget."""
    runs_again = False
    """Its backward half has kept what it reads, for another one."""
    beside: dict[Key, torch.Tensor] | None = None
    """What is saved beyond the slots."""
    versions: Mapping[Key, int] = types.MappingProxyType({})
    remembered: random_state.Remembered = types.MappingProxyType({})
    spare: less.Spare | None = None
    """What it takes to become a checkpoint; None if that cannot be."""
    saved: Sequence[torch.Tensor] = ()
    """With that, what it has saved."""

    def __init__(self, owner: Any, args: Sequence[Any]) -> None:
        """``owner`` is its class, ``args`` are what it is called with."""
        self.number = next(_NUMBERS)
        self.owner, self.variant, self.group = owner, owner.base, owner.group
        self.setting = owner.relevant.values()
        """PyTorch's switches in its forward half."""
        hooks = self.is_hooked, self.is_in_checkpoint = saved_hooks.installed()
        """Hooks get what it saves, and they are those of ``torch.utils.checkpoint``."""
        self.is_fixed = self.is_hooked and owner.switches and not saved_hooks.let_switch(hooks)
        """It runs what is compiled."""
        self.leaves = [one for place in owner.trained if (one := args[place]).is_leaf]
        """The parameters that it computes gradients of."""

    @property
    def computes_more(self) -> bool:
        """Some of the weights are computed, so that their gradients are not those of parameters."""
        return len(self.leaves) < len(self.owner.trained)

    @property
    def bytes(self) -> int:
        """What it holds by plan, with what is the caller's as well."""
        callers = self.variant.code.callers if self.owner.switches else {}
        return self.variant.numbers[0] + sum(callers.values())

    def close(self) -> None:
        """Nothing is held any more; called from wherever the ticket dies, so it takes no lock."""
        if not self.closed:
            self.closed, self.spare, self.saved = True, None, ()
            self.group.over.append(self)

    def give_up(self) -> None:
        """Becomes a checkpoint, and lets go of what it has saved beyond that; once, and if it can."""
        spare, saved = self.spare, self.saved
        self.spare, self.saved = None, ()
        if spare is not None:
            spare.give_up(self, saved)


class Switch(program.Program):
    """Forward and backward of a class: each call runs the variant that its group chooses."""

    def __init__(self, step: Step, write: Write, owner: Any) -> None:
        """``write`` is that of the first plan's :class:`Code`, ``owner`` is the class."""
        about = write()
        self.base = Code(step, about, write)
        self._owner = owner
        self._handed, self._slots = len(step.outputs), len(self.base.keys)
        self._opaque = about["forward"]["opaque"]
        self._place = self._slots - about["forward"]["unchecked"] - self._opaque
        """Where ticket and keeper are among what is saved."""
        self._instances: dict[int, tuple[Instance, weakref.ref[Any]]] = {}
        """With what tells that the ticket is gone."""
        self._places: dict[Code, Places] = {}
        fake = next(one for node in step.placeholders if (one := joint.tensor_of(node)) is not None)
        with fake.fake_mode:
            self._mark = {"val": torch.empty(1, dtype=torch.int64, device="cpu")}
        super().__init__(step, _marked(about, self._handed + self._place, self._place))
        self.first_activation = self._handed + self._place
        self.forward, self.backward = boxed(self._forward), boxed(self._backward)

    def _meta(self, kind: str, name: str) -> dict[str, Any]:
        return self._mark if kind == "mark" else super()._meta(kind, name)

    def _forward(self, args: list[Any]) -> list[Any]:
        instance = self._owner.group.begin(self._owner, args)
        hooked, recomputed = instance.is_hooked, instance.is_in_checkpoint
        code = self.base if instance.variant is self._owner.base else instance.variant.code
        try:
            spare = None if hooked else less.spare(instance, code, args)
            if spare is None or not code.remembered:
                results = list(code.forward(args))
            else:
                with random_state.remembered() as instance.remembered:
                    results = list(code.forward(args))
        except BaseException:
            instance.close()
            raise
        saved = results[self._handed :]
        del results[self._handed :]
        for place in code.viewed_places:
            saved[place] = saved[place].detach()
        if code is not self.base:
            saved = self._in_slots(instance, code, saved)
        if recomputed:
            self._for_a_checkpoint(instance, code, saved)
        number = instance.number
        memory = _Memory(number.to_bytes(8, sys.byteorder))
        ticket = keeper = torch.frombuffer(memory, dtype=torch.int64)
        if hooked:
            # Without hooks both stay what they are.
            other = _Memory((0 if recomputed else number).to_bytes(8, sys.byteorder))
            keeper = torch.frombuffer(other, dtype=torch.int64)
            memory = memory if recomputed else other
        self._instances[number] = instance, weakref.ref(memory, functools.partial(self._over, number))
        if spare is not None:
            spare.begins()
            instance.spare, instance.saved = spare, saved
        instance.group.end(instance)
        return [*results, *saved[: self._place], ticket, keeper, *saved[self._place :]]

    def _places_of(self, code: Code) -> Places:
        found = self._places.get(code)
        if found is None:
            found = self._places[code] = Places(code, self.base)
        return found

    def _in_slots(self, instance: Instance, code: Code, saved: list[Any]) -> list[Any]:
        places = self._places_of(code)
        if places.beside:
            beside = instance.beside = {key: saved[place] for key, place in places.beside}
            instance.versions = {key: loans.version(beside[key]) for key in places.checked}
        nothing = _nothing()
        return [nothing if place is None else saved[place] for place in places.in_slots]

    def _for_a_checkpoint(self, instance: Instance, code: Code, saved: list[Any]) -> None:
        """A checkpoint compares what is saved in both of its runs, and throws the node of the second away."""
        unused = self._places_of(code).in_slots[: self._place] if code is not self.base else []
        for place in [place for place, mine in enumerate(unused) if mine is None]:
            saved[place] = self.base.stand_in(place)
        late = slice(self._place, self._slots - self._opaque)
        if saved_hooks.runs_again():
            beside = instance.beside or {}
            instance.beside = {**beside, **dict(zip(self.base.keys[late], saved[late], strict=True))}
        elif not instance.is_fixed:
            instance.beside = None
            saved[late] = [_nothing() for _ in saved[late]]

    def _over(self, number: int, _: Any) -> None:
        found = self._instances.pop(number, None)
        if found is not None:
            found[0].close()

    def _backward(self, args: list[Any]) -> Sequence[Any]:
        ticket, keeper = args[self._place : self._place + 2]
        found = self._instances.get(keeper.item() or ticket.item())
        if found is None:
            raise ExecutionError(
                "a hook on saved tensors has changed the tensor that says which forward pass is meant: "
                "it holds one integer, and has to come back as it went"
            )
        instance = found[0]
        instance.group.begin_backward(instance)
        del args[self._place : self._place + 2], ticket, keeper
        code = self.base if instance.variant is self._owner.base else instance.variant.code
        given = (
            args if code is self.base and not instance.beside else self._out_of_slots(instance, code, args)
        )
        if _keeps_graph() is False:
            instance.beside = None
            instance.close()
        del args
        results: Sequence[Any] = ()
        try:
            results = code.run_backward(given, instance.setting, self._owner.relevant)
        finally:
            instance.group.end_backward(instance, results)
        return results

    def _out_of_slots(self, instance: Instance, code: Code, args: list[Any]) -> list[Any]:
        for key, version in instance.versions.items():
            now = loans.version(instance.beside[key])
            if now != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: an input of {self._owner.name}, at version {now} instead "
                    f"of {version}"
                )
        beside, places = instance.beside, self._places_of(code).slots
        if beside:
            keyed = zip(code.keys, places, strict=True)
            given = [beside[key] if key in beside else args[place] for key, place in keyed]
        else:
            given = [args[place] for place in places]
        given += args[self._slots :]
        args.clear()
        return given


def _marked(about: dict[str, Any], output: int, place: int) -> dict[str, Any]:
    """The description of passes with ticket and keeper among what is saved."""
    forward, backward = dict(about["forward"]), dict(about["backward"])
    marks = [("mark", "ticket"), ("mark", "keeper")]
    forward["outputs"] = [*forward["outputs"][:output], *marks, *forward["outputs"][output:]]
    # AOTAutograd puts what is not checked on the node instead of giving it to autograd, which would show it
    # to hooks. Compiled autograd does not look there, and runs no hooks.
    forward["unchecked"] += 0 if saved_hooks.autograd_is_compiled() else 1
    named = [(f"rk_{name}", (kind, name)) for kind, name in marks]
    backward["inputs"] = [*backward["inputs"][:place], *named, *backward["inputs"][place:]]
    return {**about, "forward": forward, "backward": backward}


class _Memory(bytearray):
    """That of a tensor of one number, which is made in half the time of one with memory of PyTorch's. A weak
    reference to it tells when the tensor and its aliases are gone; nobody moves what autograd keeps.
    """

    __slots__ = ("__weakref__",)


@functools.cache
def _nothing() -> torch.Tensor:
    """What is in a slot that a variant does not use."""
    return torch.empty(0, device="cpu")


def boxed(run: Callable[[list[Any]], Sequence[Any]]) -> Callable[[list[Any]], Sequence[Any]]:
    """A pass as AOTAutograd calls it: with one list, which it may empty."""

    def called(args: list[Any]) -> Sequence[Any]:
        return run(args)

    called._boxed_call = True
    return called
