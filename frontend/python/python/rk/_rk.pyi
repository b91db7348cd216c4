"""The compiler behind the package rk: MLIR text in, schedules out. It is written in Rust."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

class RkError(RuntimeError):
    """Every error that rk raises."""

class OptionError(RkError):
    """An option is unknown, or its value cannot be understood."""

class CompileError(RkError):
    """The step cannot be compiled; a bug in rk unless the message says otherwise."""

class BudgetError(RkError):
    """No schedule within the budget."""

    budget_bytes: int
    """What was asked for."""
    smallest_bytes: int | None
    """The smallest budget known to be feasible."""
    lower_bound_bytes: int
    """Nothing below can work."""
    holder: str
    """The operator that holds the peak."""

class OverBudget(Exception):
    """A budget cannot be met: message, bytes locked, wanted, in use."""

def budget(text: str, name: str = "budget") -> str:
    """A budget as the planner reads it: digits, or a share such as ``62.5%``. ``name`` is the option's."""

def budget_bytes(text: str) -> int:
    """The bytes of a budget that cannot be a share: bytes, ``2GiB``, ``500MB``."""

def rate(text: str, name: str) -> int:
    """The bytes a second of a bandwidth: ``25GB/s``. ``name`` is the option's."""

def seconds(text: str, name: str) -> float:
    """The seconds of a span of time: ``10s``, ``500ms``, ``2m``, ``1h``, or a number of seconds."""

def roofline(device: str) -> tuple[float, float, float]:
    """Bytes a second, operations a second, and seconds of a launch of a kind of device: ``cpu``, ``cuda``."""

def memory(text: str) -> str:
    """What the judge says about memory in a scheduled step, as JSON."""

def plan(
    graph: str,
    *,
    budget: str,
    solver: str = "auto",
    time_limit: float = 10.0,
    timekeeping: str = "wall",
    seed: int = 0,
    threads: int = 1,
) -> str:
    """Plans a graph in the JSON schema of the planner; JSON comes back."""

def calls_report(steps: Sequence[dict[str, Any]]) -> str:
    """The page of the steps that a process runs, as HTML."""

def checkpoint(text: str) -> str: ...
def choose(
    budget: int,
    classes: Sequence[Sequence[tuple[int, int, int, int]]],
    instances: Sequence[tuple[int, int, int]],
    events: Sequence[tuple[int | None, int]],
) -> tuple[list[int] | None, int, int, int, int]: ...
def rematerialize(
    text: str,
    *,
    budget: str,
    scope: str = "activations",
    solver: str = "auto",
    time_limit: str = "auto",
    timekeeping: str = "wall",
    on_infeasible: str = "error",
    patient: bool = True,
    again_at_most: str = "10s",
    seed: int = 0,
    threads: int = 1,
    addresses: bool = False,
    reserve: int = 0,
    lower: bool = False,
    stages: bool = False,
    bandwidth: str = "",
    latency: str = "",
    host_budget: str = "",
) -> str:
    """Plans a step in the dialect rk; JSON comes back."""

def run_passes(text: str, passes: str) -> str:
    """Runs passes on a module and returns its text."""

def report(text: str, points: int) -> str:
    """The page of a scheduled step, as HTML."""

def solvers() -> list[str]:
    """The names of the solvers."""

def translate(text: str, to: str, blocks: Sequence[str] = ()) -> str:
    """The only step of a module as ``json``, or as ``dot`` with these blocks or modules in full."""

def version() -> str:
    """The version of the extension."""

class Handle:
    """A reference of Python to a tensor."""

    @property
    def id(self) -> int: ...

class OnlineRuntime:
    """One budget, one pool of managed tensors."""

    def __init__(
        self,
        budget: int | None,
        heuristic: str,
        *,
        seed: int = 0,
        patience: float = 1.0,
        log: str | PathLike[str] | None = None,
        segments: bool = False,
    ) -> None: ...
    @property
    def budget(self) -> int | None: ...
    def abandon(self, args: Sequence[int]) -> None: ...
    def annotate(self, mark: str) -> None: ...
    def begin(self, operator: str, args: Sequence[int], exact: Any = None) -> Any: ...
    def constant(self, key: int, size: int) -> int: ...
    def constant_is_read(self, key: int) -> bool: ...
    def defer(self, args: Sequence[int], replay: Callable[..., Any], size: int) -> Handle: ...
    def extend(self, tensor: int, joined: Any, callable: Any, nanos: int, args: Sequence[int]) -> Any: ...
    def extendable(self, tensor: int, args: Sequence[int]) -> Any: ...
    def finish(
        self,
        operator: str,
        args: Sequence[int],
        replay: Any,
        values: Any,
        sizes: Any,
        nanos: int,
        consumed: Any,
        keep: Any,
    ) -> Any: ...
    def flush_log(self) -> None: ...
    def has_value(self, tensor: int) -> bool: ...
    def is_settled(self, tensor: int) -> bool: ...
    def keep(self, tensor: int) -> bool: ...
    def read_by(self, tensor: int) -> list[int]: ...
    def replace_constant(self, key: int, copy: Any, size: int) -> None: ...
    def reset_statistics(self) -> None: ...
    def set_budget(self, budget: int | None) -> None: ...
    def settle(self, tensor: int) -> None: ...
    def settle_all(self, share: float) -> bool: ...
    def sharers(self, tensor: int) -> list[int]: ...
    def spell(self, number: int) -> None: ...
    def statistics(self) -> dict[str, int]: ...
    def writable(self, tensor: int, alone: bool) -> bool: ...
