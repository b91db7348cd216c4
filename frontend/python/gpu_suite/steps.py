"""A training step as the suite runs it, and what is measured of it: bytes, seconds, rk's own account."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import rk
from gpu_suite import networks
from gpu_suite.rows import LOCK
from rk._graph import transfers
from rk._plan import measure

WARM_UP, TIMED, MOST_SETTLING = 2, 8, 10
MOST_SECONDS = 4.0
"""After so long no further step is timed."""


class Step:
    """Forward, loss and backward of a network, from no gradients."""

    def __init__(self, name: str, device: torch.device, small: bool, mixed: bool = False) -> None:
        """Builds the network; ``mixed``: autocast to bf16."""
        self.device, self.mixed = device, mixed
        self.model, self.inputs = networks.build(name, device, small)
        self.run: Callable[..., Any] = self.model

    def __call__(self) -> torch.Tensor:
        """One step; returns the loss."""
        with networks.precision(self.device, self.mixed):
            loss = self.run(*self.inputs)
        loss = loss if loss.ndim == 0 else loss.sum()
        loss.backward()
        return loss.detach()

    def clear(self) -> None:
        """As after ``zero_grad()``."""
        self.model.zero_grad(set_to_none=True)

    @property
    def resident_bytes(self) -> int:
        """Of parameters, buffers and inputs."""
        tensors = (*self.model.parameters(), *self.model.buffers(), *self.inputs)
        storages = [one.untyped_storage() for one in tensors]
        return sum({one._cdata: one.nbytes() for one in storages}.values())

    @property
    def gradient_bytes(self) -> int:
        """Of all parameters."""
        return sum(one.nbytes for one in self.model.parameters() if one.requires_grad)


def wait(device: torch.device) -> None:
    """Until the device has done all."""
    if device.type != "cpu":
        torch.cuda.synchronize(device)


_ALONE = False


@contextlib.contextmanager
def alone_on_card() -> Iterator[None]:
    """No other process of the suite runs warm steps, or measures costs, meanwhile."""
    global _ALONE
    if _ALONE:
        yield
        return
    path = Path(os.environ.get(LOCK) or os.devnull)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _ALONE = True
        try:
            yield
        finally:
            _ALONE = False
            # Processes that were started meanwhile have the file open, too.
            fcntl.flock(file, fcntl.LOCK_UN)


def warm(step: Step, steps: int = WARM_UP) -> dict[str, Any]:
    """The first steps, and those in which forecasts are measured."""
    start = time.perf_counter()
    step.clear()
    step()
    wait(step.device)
    first = time.perf_counter() - start
    ran = 0
    with alone_on_card():
        for _ in range(steps):
            step.clear()
            step()
        while ran < MOST_SETTLING and not all(
            one.forecast is None or one.forecast.settled for one in plans()
        ):
            step.clear()
            step()
            ran += 1
        wait(step.device)
    return {"first_step_seconds": first, "warm_seconds": time.perf_counter() - start, "settling_steps": ran}


def peaks(step: Step) -> dict[str, Any]:
    """Bytes above the start of a step that begins without gradients, which are in them; and without them."""
    step.clear()
    gc.collect()
    numbers: dict[str, Any] = {"gradient_bytes": step.gradient_bytes}
    if step.device.type == "cpu":
        with measure.memory(step.device) as memory:
            step()
        numbers["peak_bytes"] = numbers["peak_requested_bytes"] = memory.peak
        numbers["allocated_before_bytes"] = step.resident_bytes
    else:
        torch.cuda.empty_cache()
        wait(step.device)
        before = _in_use(step.device)
        torch.cuda.reset_peak_memory_stats(step.device)
        step()
        wait(step.device)
        most = torch.cuda.memory_stats(step.device)
        numbers["peak_bytes"] = most["allocated_bytes.all.peak"] - before[0]
        numbers["peak_requested_bytes"] = most["requested_bytes.all.peak"] - before[1]
        numbers["peak_reserved_bytes"] = most["reserved_bytes.all.peak"]
        numbers["allocated_before_bytes"] = before[0]
    try:
        numbers["peak_without_gradients_bytes"] = measure.peak(step, step.model)
    except Exception as error:  # noqa: BLE001 - the other numbers are there
        numbers["history_error"] = f"{type(error).__name__}: {error}"
    return numbers


def verdict(numbers: dict[str, Any]) -> dict[str, Any]:
    """Whether the budget was kept, as far as both are known."""
    budget, peak = numbers.get("budget_bytes"), numbers.get("peak_without_gradients_bytes")
    return {} if budget is None or peak is None else {"within_budget": peak <= budget}


def total_peak(step: Step) -> int:
    """The same with gradients, alone and quickly."""
    step.clear()
    gc.collect()
    with measure.memory(measure.device_of(step.model)) as memory:
        step()
    return memory.peak


def _in_use(device: torch.device) -> tuple[int, int]:
    stats = torch.cuda.memory_stats(device)
    return stats["allocated_bytes.all.current"], stats["requested_bytes.all.current"]


def times(step: Step, count: int = TIMED) -> dict[str, Any]:
    """Milliseconds of steps, each between two events; on the CPU by the clock."""
    seen: list[float] = []
    start = time.perf_counter()
    collected = gc.isenabled()
    gc.disable()
    try:
        while len(seen) < count and (len(seen) < 3 or time.perf_counter() - start < MOST_SECONDS):
            step.clear()
            seen.append(_timed(step))
    finally:
        if collected:
            gc.enable()
    seen.sort()
    return {
        "step_ms": statistics.median(seen),
        "step_ms_least": seen[0],
        "step_ms_most": seen[-1],
        "steps_timed": len(seen),
    }


def _timed(step: Step) -> float:
    wait(step.device)
    if step.device.type == "cpu":
        start = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - start)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    step()
    last.record()
    last.synchronize()
    return first.elapsed_time(last)


def plans() -> list[Any]:
    """The graphs that rk has compiled for what is alive."""
    from rk._compile.backend import Compiled

    return [one for one in gc.get_objects() if type(one) is Compiled and one.schedule is not None]


def account() -> dict[str, Any]:
    """What rk planned, over all graphs."""
    found = plans()
    if not found:
        return {}
    made = [one.schedule for one in found]
    chosen = rk.plans()
    numbers: dict[str, Any] = {
        "graphs": len(found),
        "budget_bytes": sum(one.budget for one in made),
        "planned_peak_bytes": sum(one.peak for one in made),
        "planned_base_peak_bytes": sum(one.base_peak for one in made),
        "planned_ms": sum(one.time for one in made) * 1e-6,
        "planned_base_ms": sum(one.base_time for one in made) * 1e-6,
        "lower_bound_ms": sum(one.lower_bound for one in made) * 1e-6,
        "transfers": sum(move[1] in ("offload", "fetch") for one in made for move in one.moves),
        "planned_host_bytes": sum(one.host_peak or 0 for one in made),
        "planned_stall_ms": sum(one.stall or 0 for one in made) * 1e-6,
        "host_peak_bytes": transfers.HOST.peak,
        "second_runs": sum(second for one in made for _, second in one.runs),
        "status": ", ".join(sorted({one.status for one in made})),
        "solver": ", ".join(sorted({one.solver for one in made})),
    }
    if len(found) == 1 and any(one.measured is not None for one in chosen):
        # A step that is observed runs what was chosen for it, which is not the plan that was made last.
        numbers["planned_ms"], numbers["planned_peak_bytes"] = chosen[-1].time * 1e-6, chosen[-1].peak
        numbers.pop("budget_bytes")
    numbers["overhead_predicted"] = 100 * (numbers["planned_ms"] / max(numbers["planned_base_ms"], 1e-9) - 1)
    forecasts = [one.forecast for one in found if one.forecast is not None]
    if forecasts:
        numbers["forecast"] = [
            {"asked_bytes": one.budget, "measured_bytes": one.measured} for one in forecasts
        ]
    return numbers


@contextlib.contextmanager
def told() -> Iterator[list[str]]:
    """What rk logs meanwhile, and warns of: times of planning and measuring, calls that could not be
    measured, budgets that were not kept.
    """
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage()[:300])

    logger, handler = logging.getLogger("rk"), Kept()
    level, on = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield lines
        lines += [f"{WARNED}{one.message}"[:600] for one in warned if str(one.message).startswith("rk")]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = on


WARNED = "warning: "
"""How the lines of warnings begin."""


def summary(lines: list[str]) -> dict[str, Any]:
    """Numbers from what rk logged."""
    planning = [float(line.rsplit(" in ", 1)[1][:-2]) for line in lines if line.startswith("rk: peak ")]
    measuring = [float(line.rsplit(" in ", 1)[1][:-2]) for line in lines if line.startswith("rk: measured ")]
    unmeasured = [line for line in lines if "cannot be measured" in line]
    return {
        "plans": len(planning),
        "planning_seconds": round(sum(planning), 3),
        "measuring_seconds": round(sum(measuring), 3),
        "unmeasured_calls": len(unmeasured),
        "unmeasured": unmeasured[:5],
        "warnings": [line for line in lines if line.startswith(WARNED)][:5],
    }


def forget(device: torch.device) -> None:
    """Lets go of all that was compiled and cached."""
    torch._dynamo.reset()
    gc.collect()
    if device.type != "cpu":
        wait(device)
        torch.cuda.empty_cache()
