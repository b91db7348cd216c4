"""Options for everything that is compiled from now on, where a call does not say otherwise.

``rk.config.time_limit = "2s"`` holds from then on; ``with rk.config.patch(verify=True):`` holds inside, and
``@rk.config.patch(...)`` inside of a function. Names, units and defaults are those of the options of
``torch.compile(model, backend="rk", options={...})``, which come first. ``torch.compile`` compiles at the
first call, so that is what has to lie inside of a patch.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from os import PathLike
from types import ModuleType
from typing import Any

from rk._plan.options import COMMON, Options

__all__ = ["patch", "reset"]

budget: int | str
"""Bytes, or a text with a unit (``"2GiB"``), a share (``"60%"``), or ``"auto"``: what the device has left."""
share_of: str
"""Of what a share is one: ``"step"``, or ``"checkpoints"``, the step as the model's checkpoints make it."""
scope: str
"""What the budget counts: ``"activations"``, ``"total"`` or ``"device"``."""
group: str
"""Graphs on one device with the same budget, scope and group share that budget."""
solver: str
"""Who plans: one of ``rk.solvers()``."""
time_limit: float | str | None
"""Planning time: seconds, or a text with a unit; None leaves it to the planner."""
reproducible: bool
"""Whether a plan is the same on every machine and under any load."""
codegen: str
"""Who runs the plan: ``"fx"``, ``"inductor"`` or ``"rk"``."""
offload: int | str | bool | None
"""Whether values may wait in host memory, and in how many bytes of it at most."""
bandwidth: str | None
"""How fast copies to host memory and back are, such as ``"25GB/s"``; None measures it."""
verify: bool
"""Whether the first steps are run without the plan, too, and compared bit by bit."""
cache_dir: str | PathLike[str] | None
"""Where plans and costs are kept; None is ``$RK_CACHE_DIR``, else ``~/.cache/rk``."""
dump_dir: str | PathLike[str] | None
"""Where the text of every stage goes."""
on_infeasible: str
"""What follows when nothing fits: ``"error"``, or ``"best"``: the smallest budget that can be met."""
on_unplanned: str
"""What follows when something runs without a plan: ``"error"``, ``"warn"``, ``"ignore"`` or ``"auto"``."""


@contextlib.contextmanager
def patch(**options: Any) -> Iterator[None]:
    """Sets options inside of a ``with`` block or a decorated function.

    Args:
        **options: Those of the backend. Outside of the block they are as before.

    Yields:
        Nothing.

    Raises:
        OptionError: An option, a unit or a value is not known.
    """
    before = dict(COMMON)
    COMMON.update(Options.checked(options))
    try:
        yield
    finally:
        COMMON.clear()
        COMMON.update(before)


def reset() -> None:
    """Sets all options back to their defaults."""
    COMMON.clear()


class _Config(ModuleType):
    """The module: its options are read and set as attributes, and checked."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Options, name):
            raise AttributeError(f"rk.config has no option '{name}'")
        return COMMON.get(name, getattr(Options, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            COMMON.update(Options.checked({name: value}))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *__annotations__]


sys.modules[__name__].__class__ = _Config
