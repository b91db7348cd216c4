"""A training function around samples of an operator, made so that the operator has to run again.

Its inputs are values of the step (copies of what comes in), and its outputs are read late, by something that
saves them for backward: ``sin`` of what has a gradient; for everything else a factor of something that has.
Nothing of the operator itself leaves the step. At its end something wide is made that depends on all outputs:
where it stands a plan for the smallest budget has dropped whatever may run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.traceback import annotate

from campaigns.opinfo.families import Subject, tensors_in

UNDER_TEST = {"rk": "under test"}
"""How the calls of the operator are found in graphs."""
WIDE = 1 << 18
"""Elements. More than samples take while their operator runs."""


def around(subjects: Sequence[Subject]) -> Callable[..., list[torch.Tensor]]:
    """The function: it takes a gate (a number that is trained) and the arguments of every sample."""
    calls = [one.call for one in subjects]

    def program(gate: torch.Tensor, given: list[tuple[Any, ...]]) -> list[torch.Tensor]:
        outputs = []
        for call, (args, kwargs) in zip(calls, given, strict=True):
            args, kwargs = _inside(args), _inside(kwargs)
            with annotate(UNDER_TEST):
                made = call(*args, **kwargs)
            outputs += [late(one, gate) for one in tensors_in(made)]
        return [*outputs, *pressure(outputs)]

    return program


class Flat(nn.Module):
    """The function of tensors only, which AOTAutograd takes without Dynamo."""

    def __init__(self, program: Callable[..., Any], given: Any) -> None:
        """``given`` are arguments whose tensors are replaced."""
        super().__init__()
        self._program, self._given = program, given
        self.graph = fx.Graph()
        """What Dynamo has traced: nothing."""

    def forward(self, gate: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Calls it."""
        return tuple(self._program(gate, replaced(self._given, iter(tensors))))


def replaced(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Arguments with other tensors, in the order of ``tensors_in``."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {key: replaced(one, tensors) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)([replaced(one, tensors) for one in value])
    return value


def _inside(value: Any) -> Any:
    """The same values as results of the step itself."""
    if isinstance(value, torch.Tensor):
        return value.clone() if value.requires_grad else value
    if isinstance(value, dict):
        return {key: _inside(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_inside(one) for one in value])
    return value


def pressure(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """A number from all outputs, through something wide."""
    numbers = [torch.view_as_real(one) if one.is_complex() else one for one in outputs]
    numbers = [one.detach().sum().to(torch.float32) for one in numbers]
    return [torch.zeros(WIDE).add(sum(numbers)).amax()] if numbers else []


def late(made: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """An output, read by something that needs it in backward."""
    if made.layout is not torch.strided:
        made = made.to_dense()
    if not made.requires_grad:
        made = made if made.is_floating_point() or made.is_complex() else made.to(gate.dtype)
        return gate.sin() * made
    return made * made if made.is_complex() else made.sin()


class Run:
    """One call forward and backward, and all that can be seen of it afterwards."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        """Keeps what modules hold, to put it back before every run."""
        self.subjects = subjects
        modules = (one.module for one in subjects if one.module is not None)
        self._held = [tensor for one in modules for tensor in (*one.parameters(), *one.buffers())]
        self._values = [one.detach().clone() for one in self._held]

    def __call__(self, program: Callable[..., list[torch.Tensor]]) -> list[torch.Tensor | None]:
        """Outputs, gradients, what was overwritten, the generator; from the same start each time."""
        with torch.no_grad():
            for one, value in zip(self._held, self._values, strict=True):
                one.copy_(value)
        arguments = [one.fresh() for one in self.subjects]
        gate = torch.tensor(0.7, requires_grad=True)
        torch.manual_seed(7)
        outputs = program(gate, arguments)
        given = [gate, *tensors_in(arguments), *self._held]
        leaves = [one for one in given if one.requires_grad]
        ends = [one for one in outputs if one.requires_grad]
        gradients: tuple[Any, ...] = ()
        if ends:
            source = torch.Generator().manual_seed(11)
            tangents = [torch.randn(one.shape, generator=source).to(one.dtype) for one in ends]
            gradients = torch.autograd.grad(ends, leaves, tangents, allow_unused=True)
        seen = [*outputs, *gradients, *given, torch.random.get_rng_state()]
        return [None if one is None else _plain(one) for one in seen]


def _plain(value: torch.Tensor) -> torch.Tensor:
    value = value.detach()
    return value if value.layout is torch.strided else value.to_dense()
