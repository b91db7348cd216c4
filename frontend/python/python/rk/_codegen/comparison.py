"""The option ``verify``: the first steps run without the plan, too, and every bit is compared (law S8).

The step without the plan is written by the same emitter from the trivial schedule, every call once in its
original order, and runs first, on copies of what it updates and from the same generator state.
"""

from __future__ import annotations

import dataclasses
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rk._codegen import bits, emit, saved_hooks
from rk._graph import random_state
from rk._graph.graph_text import Text
from rk._graph.step import Step
from rk.errors import VerifyError

STEPS = 2
"""How many steps are compared: the second starts from what the first one has updated."""
UNSEEN = (
    "unless an argument was written to between forward and backward where autograd does not see it "
    "(through .data), "
)
"""What makes two ways of computing a gradient differ that are both right."""
Run = Callable[[list[Any]], Sequence[Any]]


@dataclasses.dataclass
class Waiting:
    """A forward pass whose backward pass has not come."""

    expected: Sequence[Any]
    """What it saved without the plan."""
    storages: list[weakref.ref[torch.UntypedStorage]]
    """Those of what it saved with the plan and nobody else has; of all that it saved, if there are none."""
    contents: list[bytes]
    """What was in them, if hooks of the user's get what is saved and may give back something else."""


class Verifier:
    """Compares the steps of one graph."""

    def __init__(self, step: Step, device: torch.device) -> None:
        """Compiles the step without a plan."""
        everything = [(call.line, False) for call in Text(step).calls if not call.is_view]
        emitter = emit.Emitter(step, everything)
        self.forward, self.backward = emitter.modules()
        self.outputs = len(emitter.handed_out)
        self.names = [str(node.target) for node in step.placeholders]
        self.updated = step.updated()
        self.device = device
        self.left = STEPS
        self.waiting: list[Waiting] = []

    def run_forward(self, run: Run, args: list[Any]) -> Sequence[Any]:
        """Runs forward both ways; VerifyError names the first output or buffer that differs."""
        if self.left == 0:
            return run(args)
        state = random_state.save(self.device)
        copies = [one.clone() if index in self.updated else one for index, one in enumerate(args)]
        originals = {index: args[index] for index in self.updated}
        callers = _storages(args)
        expected = self.forward(*copies)
        after = random_state.save(self.device)
        random_state.restore(state, self.device)
        found = run(args)
        for index in range(self.outputs):
            _compare(f"output {index}", expected[index], found[index])
        for index, original in originals.items():
            _compare(f"the update of {self.names[index]}", copies[index], original)
        _compare("the generator", after, random_state.save(self.device))
        saved = found[self.outputs :]
        hooked, _ = saved_hooks.installed()
        shared = set(map(id, (*callers, *_storages(found[: self.outputs]))))
        own = [one for one in _storages(saved) if id(one) not in shared]
        storages = [weakref.ref(one) for one in own or _storages(saved)]
        contents = _contents(saved) if hooked else []
        self.waiting.append(Waiting(expected[self.outputs :], storages, contents))
        return found

    def run_backward(self, run: Run, args: list[Any]) -> Sequence[Any]:
        """Runs backward both ways; VerifyError names the first gradient that differs."""
        carried = len(args) - self.tangents
        place = self._place_of(args[:carried])
        if place is None:
            return run(args)
        expected = self.backward(*self.waiting.pop(place).expected, *args[carried:])
        found = run(args)
        for name, one, other in zip(self.names, expected, found, strict=False):
            _compare(f"the gradient of {name}", one, other, UNSEEN)
        self.left = max(self.left - 1, 0)
        if self.left == 0:
            self.waiting.clear()
        return found

    def _place_of(self, given: Sequence[Any]) -> int | None:
        """Which of the runs that wait this backward pass belongs to: they come in any order, or never. None
        if nothing tells.
        """
        storages = _storages(given)
        for place, one in enumerate(self.waiting):
            if all(any(kept() is storage for storage in storages) for kept in one.storages):
                return place
        if not self.waiting or self.left == 0:
            return None
        # Hooks of the user's have packed what was saved: it is the run that saved most of what came back.
        contents = _contents(given)
        alike = [sum(map(operator.eq, one.contents, contents)) for one in self.waiting]
        most = max(alike)
        is_told = most > 0 and (alike.count(most) == 1 or most == len(contents))
        return alike.index(most) if is_told else None

    @property
    def tangents(self) -> int:
        """How many inputs of backward come from the caller."""
        placeholders = self.backward.graph.find_nodes(op="placeholder")
        return len(placeholders) - len(self.forward.graph.output_node().args[0]) + self.outputs


def _storages(values: Sequence[Any]) -> list[torch.UntypedStorage]:
    return [one.untyped_storage() for one in values if isinstance(one, torch.Tensor)]


def _contents(values: Sequence[Any]) -> list[bytes]:
    tensors = (one for one in values if isinstance(one, torch.Tensor))
    # What a call has let go of, to become a checkpoint, has no memory.
    return [bits.digest(one) if one.untyped_storage().nbytes() > 0 else b"" for one in tensors]


def _compare(name: str, expected: Any, found: Any, unless: str = "") -> None:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        if expected is not found and expected != found:
            raise VerifyError(f"{name} is {found} instead of {expected}")
        return
    if not bits.equal(expected, found):
        raise VerifyError(
            f"{name} is not what it is without the plan; {unless}this is a bug in rk, please report it"
        )
