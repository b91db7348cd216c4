"""The chapters in order of importance."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from gpu_suite import comparison, fits, lowered, smoke
from gpu_suite.rows import Context, Row


@dataclasses.dataclass(frozen=True)
class Chapter:
    """Its rows, and who measures them."""

    rows: Callable[[list[str]], Iterator[Row]]
    worker: Callable[[Context], Any]


CHAPTERS = {
    "smoke": Chapter(smoke.rows, smoke.Smoke),
    "comparison": Chapter(comparison.rows, comparison.Comparison),
    "fits": Chapter(fits.rows, fits.Fits),
    "lowered": Chapter(lowered.rows, lowered.Lowered),
}
