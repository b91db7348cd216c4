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

# What each of them means stands at the class Options.
budget: int | str
share_of: str
scope: str
group: str
solver: str
time_limit: float | str | None
reproducible: bool
codegen: str
offload: int | str | bool | None
bandwidth: str | None
verify: bool
cache_dir: str | PathLike[str] | None
dump_dir: str | PathLike[str] | None
on_infeasible: str
on_unplanned: str


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
