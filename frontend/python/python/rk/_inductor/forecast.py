"""Operators are planned, and Inductor makes kernels of the plan: for graphs that cannot be read as kernels.

Inductor fuses and reorders what it is given, so the peak of a plan is a forecast. It is measured when
a step runs, and the user is told where it exceeds the budget (:class:`Forecast`). Random numbers are
Inductor's own: its seeds are drawn once and saved, and what is made of them can be computed again, so masks
are the same in both runs.
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
from rk.errors import BudgetError


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


class Forecast(MeasuredStep):
    """The measured peak of one graph's step, beside its budget."""

    def __init__(self, strict: bool) -> None:
        """``strict``: a budget that is not kept is an error, not only a warning."""
        self.strict = strict
        self.budget: int | None = None
        """Bytes that were asked for, in the scope ``activations``."""
        self.measured: int | None = None
        """The peak of the measured step, without the gradients of parameters."""
        self._is_told = False

    def planned(self, budget: int, device: torch.device, gradients: Sequence[int]) -> None:
        """A plan within ``budget`` is about to run; ``gradients`` says which results of backward are those of
        parameters.
        """
        self.budget, self.measured, self.settled, self._is_told = budget, None, False, False
        self.begins_with(device, gradients)

    def took(self, peak: int) -> None:
        """One step says enough."""
        self.measured, self.settled = peak, True

    def check(self) -> None:
        """Tells the user, once, that the last step exceeded the budget: BudgetError, or a warning."""
        if self._is_told or self.measured is None or self.measured <= self.budget:
            return
        self._is_told = True
        text = (
            f"with Inductor's kernels a step took {self.measured} bytes, and the budget is {self.budget}: "
            "the plan of this graph is a forecast. codegen='fx' keeps every budget that it accepts"
        )
        if self.strict:
            error = BudgetError(text)
            error.budget_bytes, error.smallest_bytes = self.budget, None
            error.lower_bound_bytes = error.holder = None
            raise error
        warnings.warn(f"rk: {text}", stacklevel=3)
