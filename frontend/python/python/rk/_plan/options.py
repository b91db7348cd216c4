"""The options of ``torch.compile(model, backend="rk", options={...})``, checked before anything is
compiled.

A budget is bytes, ``"2GiB"``, ``"500MB"``, a share ``"60%"`` of the peak without rematerialization, or
``"auto"``: what the device has left when the step is compiled. The syntax is the one of ``rk-opt
--budget``.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rk import _rk, _torch
from rk.errors import OptionError

CODEGENS = ("fx", "inductor", "rk")
COMMON: dict[str, Any] = {}
"""What ``rk.config`` sets: checked options for everything that does not say otherwise."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How a model is compiled. All fields have been checked."""

    budget: str = "auto"
    """Bytes as digits, a share such as ``60%``, or ``auto``."""
    share_of: str = "step"
    """What a share is one of: ``step``, the peak without recomputation, or ``checkpoints``, the peak when the
    model's own checkpoints are obeyed.
    """
    scope: str = "activations"
    """What the budget counts: ``activations``; ``total`` (with parameters, buffers, inputs and gradients);
    ``device``: all of that, with gradients from when they are made, and what the optimizer takes.
    """
    group: str = ""
    """Graphs on one device with the same budget, scope and group share that budget."""
    solver: str = "auto"
    """Who plans; ``rk.solvers()`` lists them."""
    time_limit: float | None = None
    """Seconds after which the best plan counts; None is a fraction of a second, more only to find a plan at
    all.
    """
    reproducible: bool = False
    """Whether a plan is the same on every machine and under any load: the times of calls are those of a model
    (bytes and operations) instead of measured ones, and the planner's limit counts its work instead of
    seconds.
    """
    codegen: str = "fx"
    """Who runs the plan: ``fx`` calls PyTorch's own kernels in exactly the planned order, ``inductor`` makes
    kernels of what is planned, ``rk`` calls PyTorch's kernels on planned addresses of one arena.
    """
    offload: str | None = None
    """Whether values may wait in host memory: None if not, ``any`` number of bytes of it, or at most so many,
    as digits.
    """
    bandwidth: str | None = None
    """Of the copies of ``offload``, in each direction, such as ``25GB/s``; None measures it."""
    verify: bool = False
    """Whether the first steps are run without the plan, too, and compared bit by bit."""
    cache_dir: Path | None = None
    """Where plans and costs are kept; None is ``$RK_CACHE_DIR``, else ``~/.cache/rk``."""
    dump_dir: Path | None = None
    """Where the text of every stage goes, as ``.mlir`` files."""
    on_infeasible: str = "error"
    """``error``, or ``best``: the smallest budget that was found to be feasible, with a warning."""
    on_unplanned: str = "auto"
    """What follows when Dynamo lets PyTorch run something by itself: ``error``, ``warn``, ``ignore``, or
    ``auto``: an error if nothing of a call is planned, a warning if a part of it is not.
    """

    @classmethod
    def parse(cls, given: Mapping[str, Any] | None) -> Options:
        """Checks what a user wrote; raises OptionError with the name of the culprit. What is not given is as
        ``rk.config`` says.
        """
        given = {**COMMON, **cls.checked(given or {})}
        if given.get("verify") and given.get("codegen") == "inductor":
            raise OptionError("verify=True compares bits, and those of Inductor's kernels are their own")
        if given.get("codegen") == "rk" and (reason := _torch.refuse_runtime()):
            raise OptionError(reason)
        options = cls(**given)
        options._check_offload()
        return options

    def _check_offload(self) -> None:
        if self.offload is None and self.bandwidth is not None:
            raise OptionError(
                f"bandwidth={self.bandwidth!r} is that of copies to host memory; add offload=True, or leave "
                "it out"
            )
        if self.offload is not None and self.codegen != "fx":
            raise OptionError(
                f"codegen={self.codegen!r} cannot move values to host memory; codegen='fx' does, or leave "
                "offload out"
            )

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Each option by itself, as the fields have it."""
        given = dict(given)
        known = {field.name for field in dataclasses.fields(cls)}
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean '{close[0]}'?" if close else "."
                raise OptionError(f"rk has no option '{name}'{hint} There are: {', '.join(sorted(known))}")
        for name, check in _CHECKS.items():
            if name in given:
                given[name] = check(name, given[name])
        return given

    def check_foreseen(self, what: str) -> None:
        """Raises OptionError for what needs to be seen while a model is trained."""
        if self.scope == "device":
            raise OptionError(
                f"{what} reads one graph, and scope='device' counts all that stands on a device: rk.fit "
                "foresees that, and rk.compile keeps it"
            )

    def check_runs(self) -> None:
        """Raises OptionError for what can be asked (``rk.fit``) and not be run."""
        if self.scope == "device" and self.codegen == "rk":
            raise OptionError(
                "scope='device' chooses the plan of every call, which codegen='rk' does not let; "
                "codegen='fx' does, and scope='total' counts what stands there, but for the optimizer"
            )

    def as_dict(self) -> dict[str, Any]:
        """As ``torch.compile`` takes it."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def cost_model(self) -> str:
        """Where the times of calls come from: ``measured``, or ``roofline``."""
        return "roofline" if self.reproducible else "measured"

    @property
    def timekeeping(self) -> str:
        """What the planner's limit counts: ``wall``, or ``work``."""
        return "work" if self.reproducible else "wall"

    @property
    def planning_time(self) -> str:
        """The planner's limit, as it reads it; ``auto`` leaves it to the planner."""
        return "auto" if self.time_limit is None else f"{max(int(self.time_limit * 1000), 1)}ms"

    def cache_folder(self) -> Path:
        """Where plans and costs are kept."""
        if self.cache_dir is not None:
            return self.cache_dir
        named = os.environ.get("RK_CACHE_DIR")
        return Path(named) if named else Path.home() / ".cache" / "rk"


def parse_budget(name: str, value: Any) -> str:
    """A budget as the planner reads it: digits, a share, or ``auto``."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise OptionError(f"{name}={value!r} is no budget; give bytes, '2GiB', '60%' or 'auto'")
    text = str(value).strip()
    return text if text == "auto" else _rk.budget(text, name)


def _one_of(choices: tuple[str, ...]) -> Any:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise OptionError(f"{name}={value!r}: there are {', '.join(choices)}")
        return str(value)

    return check


def _seconds(name: str, value: Any) -> float | None:
    return None if value is None else _rk.seconds(str(value), name)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(f"{name}={value!r} is no text")
    return value


def _host_memory(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return "any" if value else None
    if value == "any":
        return value
    size = parse_budget(name, value)
    if not size.isdigit():
        raise OptionError(
            f"{name}={value!r}: a share of what? Give bytes of host memory, such as '8GiB', or True"
        )
    return size


def _bandwidth(name: str, value: Any) -> str | None:
    return None if value is None else f"{_rk.rate(_text(name, value), name)}B/s"


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name}={value!r} is neither True nor False")
    return value


def _folder(name: str, value: Any) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise OptionError(f"{name}={value!r} is no path")
    path = Path(value).expanduser()
    if path.exists() and not path.is_dir():
        raise OptionError(f"{name}={str(path)!r} is not a folder")
    return path


_CHECKS = {
    "budget": parse_budget,
    "share_of": _one_of(("step", "checkpoints")),
    "scope": _one_of(("activations", "total", "device")),
    "group": _text,
    "solver": lambda name, value: _one_of(tuple(_rk.solvers()))(name, value),
    "time_limit": _seconds,
    "reproducible": _flag,
    "codegen": _one_of(CODEGENS),
    "offload": _host_memory,
    "bandwidth": _bandwidth,
    "verify": _flag,
    "cache_dir": _folder,
    "dump_dir": _folder,
    "on_infeasible": _one_of(("error", "best")),
    "on_unplanned": _one_of(("auto", "error", "warn", "ignore")),
}
