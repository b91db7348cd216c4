"""One step is measured and held against the replay.

What is replayed is what is allocated, as far as anybody knows; if a step takes more, the replay is wrong, and
the user is told which kernel it took for the largest. Nothing is planned again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from rk._inductor.backend import Planned
from rk._plan import measure

Run = Callable[[list[Any]], Any]


class Watch:
    """Measures the first step whose kernels are warm."""

    def __init__(self, planned: Callable[[], Planned | None]) -> None:
        """``planned`` says what runs."""
        self._planned = planned
        self._peak = self._left = 0
        self._is_done = False
        # On a GPU kernels are chosen in their first run, by trying them, and libraries take their workspaces.
        self._cold = 0

    def forward(self, run: Run) -> Run:
        """Measures the forward pass."""

        def measured(args: list[Any]) -> Any:
            self._peak = 0
            if self._is_done or self._is_cold() or self._is_watched():
                return run(args)
            with measure.memory(self._planned().device) as memory:
                results = run(args)
            self._peak, self._left = memory.peak, memory.left
            return results

        measured._boxed_call = True
        return measured

    def backward(self, run: Run) -> Run:
        """Measures the backward pass, and with it the step."""

        def measured(args: list[Any]) -> Any:
            if self._is_done or self._peak == 0 or self._is_watched():
                return run(args)
            planned = self._planned()
            with measure.addresses(planned.device) as addresses:
                results = run(args)
            gradients = [results[place] for place in planned.step.gradient_places() if place < len(results)]
            most = addresses.peak(one for one in gradients if one is not None)
            self._is_done = True
            self._compare(planned, max(self._peak, self._left + most))
            return results

        measured._boxed_call = True
        return measured

    def _is_cold(self) -> bool:
        self._cold += 1
        return self._cold <= (0 if self._planned().device.type == "cpu" else 2)

    def _is_watched(self) -> bool:
        """Whether the user is profiling, or recording what the GPU's allocator does: there is one history."""
        device = self._planned().device
        recorded = device.type != "cpu" and torch._C._cuda_isHistoryEnabled()
        return recorded or torch.autograd._profiler_enabled()

    def _compare(self, planned: Planned, measured: int) -> None:
        if measured <= planned.peak:
            return
        worst = max(planned.halves_replayed, key=lambda half: half.peak)
        warnings.warn(
            f"rk: a step takes {measured} bytes, and what Inductor's code says that it allocates is "
            f"{planned.peak}, most of them while {worst.holder} runs; the budget is {planned.budget}. This "
            "is an error in rk: please report it. codegen='fx' keeps every budget that it accepts",
            stacklevel=2,
        )
