"""Operators are planned, and Inductor makes kernels of the plan: for graphs that cannot be read as kernels.

Inductor fuses and reorders what it is given, so the peak of a plan is a forecast. It is measured when
a step runs, and as long as it exceeds the budget, the next step is planned for as much less
(:class:`Tightening`). Random numbers are Inductor's own: its seeds are drawn once and saved, and what is made
of them can be computed again, so masks are the same in both runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config
from torch import fx

from rk._graph.copies import copied
from rk._inductor.measured import MeasuredStep, Run
from rk._inductor.partitioner import Partitioner
from rk._plan.schedule import Schedule
from rk.errors import BudgetError

ATTEMPTS = 6
"""How many plans are tried for one budget."""
MARGIN = 0.01
"""By how much more than the overshoot a plan is tightened, as a share of the budget."""


def compiled(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    partition: Callable[..., Any],
    forward: Callable[[Run], Run],
    backward: Callable[[Run], Run],
) -> Callable[..., Any]:
    """The graph as Inductor compiles it; ``forward`` and ``backward`` wrap what runs."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.utils import get_donated_idxs

    def inner(graph: fx.GraphModule, example_inputs: Sequence[Any], **about: Any) -> Any:
        # Inductor's cache is keyed by what the module holds, and does not know by itself which saved values
        # may be overwritten: kernels that do would be taken for a graph whose values are the caller's, too.
        graph.rk_donated = get_donated_idxs() if about.get("is_backward") else None
        code = compile_fx_inner(graph, example_inputs, **about)
        if not about.get("is_inference"):
            wrap = backward if about.get("is_backward") else forward
            code.current_callable = wrap(code.current_callable)
        return code

    with (
        torch._inductor.config.patch(custom_partitioner_fn=Partitioner(partition)),
        # It would take the partition of another budget from its cache.
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        # Inductor keeps what it is given, and the graph may have to be compiled again.
        return compile_fx(copied(gm), list(inputs), inner_compile=inner)


class Tightening(MeasuredStep):
    """The measured peak of one graph's steps, and what follows from it for its plan."""

    def __init__(self, strict: bool) -> None:
        """``strict``: a budget that cannot be kept is an error, not only a warning."""
        self.strict = strict
        self.budget: int | None = None
        """Bytes that were asked for, in the scope ``activations``."""
        self.measured: int | None = None
        """The peak of the last measured step, without the gradients of parameters."""
        self._attempts, self._is_fresh = 0, False

    def planned(self, schedule: Schedule, device: torch.device, gradients: Sequence[int]) -> None:
        """A new plan is about to run; ``gradients`` says which results of backward are gradients of
        parameters.
        """
        self.budget = schedule.budget if self.budget is None else self.budget
        self._nominal = schedule.budget
        self.begins_with(device, gradients)

    def took(self, peak: int) -> None:
        """Says whether there is to be another plan."""
        self.measured = peak
        self._is_fresh, self.settled = True, peak <= self.budget

    def next_budget(self) -> int | None:
        """What the next plan must be within, in bytes; None if this one is good, or was not measured yet."""
        if self.settled or not self._is_fresh:
            return None
        self._attempts += 1
        if self._attempts == ATTEMPTS:
            self.give_up(f"{ATTEMPTS} plans were tried")
            return None
        self._is_fresh = False
        return max(self._nominal - (self.measured - self.budget) - int(MARGIN * self.budget), 1)

    def give_up(self, why: str) -> None:
        """Tells the user that the budget is not kept: BudgetError, or a warning."""
        self.settled = True
        measured = "" if self.measured is None else f" (measured: {self.measured} bytes)"
        text = f"with Inductor's kernels the step does not stay within {self.budget} bytes{measured}: {why}"
        if self.strict:
            raise BudgetError(f"{text}. codegen='fx' keeps every budget that it accepts")
        warnings.warn(f"rk: {text}", stacklevel=2)
