"""One step is measured and held against the replay.

What is replayed is what is allocated, as far as anybody knows; if a step takes more, the replay is wrong, and
the user is told which kernel it took for the largest. Nothing is planned again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from rk._inductor.backend import Planned
from rk._inductor.measured import MeasuredStep


class Watch(MeasuredStep):
    """Measures the first step whose kernels are warm."""

    def __init__(self, planned: Callable[[], Planned | None]) -> None:
        """``planned`` says what runs."""
        self._planned = planned

    def begins(self) -> None:
        """What was compiled is about to run; nothing is measured of a graph without a plan."""
        planned = self._planned()
        self.settled = planned is None
        if planned is not None:
            self.begins_with(planned.device, planned.uncounted)

    def took(self, peak: int) -> None:
        """Holds it against the replay."""
        self.settled = True
        self._compare(self._planned(), peak)

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
