"""One cell of :mod:`benchmarks.inductor`, in a process of its own: a network within a budget, or alone."""

from __future__ import annotations

import copy
import dataclasses
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo import callback

from benchmarks.small_models import MODELS
from rk._inductor import backend
from rk._plan import measure


@dataclasses.dataclass
class Cell:
    """What was found; bytes in scope ``activations``, seconds of CPU."""

    model: str
    way: str
    """``default``, ``none`` for no budget, or percent of the default's peak."""
    budget: int = 0
    planned: int = 0
    replayed: int = 0
    first: int = 0
    """Measured in the first step, from when it is compiled."""
    later: int = 0
    """Measured in the third step."""
    bits: str = ""
    """``equal`` to the default's in loss, gradients and buffers, or the largest difference."""
    overhead: float = 0.0
    """Predicted, in percent."""
    compiling: float = 0.0
    """Until the first step is done."""
    step: float = 0.0
    """Median of steps over the default's steps beside them."""
    said: str = ""
    """A warning or an error."""


class FirstStep:
    """Listens to the allocator as soon as something is compiled."""

    def __init__(self) -> None:
        """Waits for Dynamo to say that it has compiled."""
        self.seen: Any = None
        callback.on_compile_end(self._compiled)

    def _compiled(self, _about: Any) -> None:
        if self.seen is None:
            self.seen = measure.addresses(torch.device("cpu"))
            self.seen.__enter__()

    def stop(self) -> None:
        """The step is over, or was refused: a process that ends while a profiler runs ends with a crash."""
        callback.callback_handler.remove_end_callback(self._compiled)
        if self.seen is not None:
            self.seen.__exit__(None, None, None)

    def peak(self, model: nn.Module) -> int:
        """The most bytes, without gradients of parameters."""
        return self.seen.peak(one.grad for one in model.parameters() if one.grad is not None)


def _cpu() -> float:
    """Seconds of this process and of the compilers that it started."""
    return sum(os.times()[:4])


class Run:
    """A network, compiled one way."""

    def __init__(self, model: nn.Module, sample: Any, **how: Any) -> None:
        """``how`` goes to ``torch.compile``."""
        self.model = copy.deepcopy(model)
        self.step = measure.training_step(torch.compile(self.model, dynamic=False, **how), sample)

    def first(self) -> tuple[dict[str, torch.Tensor], int, float]:
        """What the first step computes, its peak, and the seconds until it is done."""
        listener, start = FirstStep(), _cpu()
        torch.manual_seed(5)
        try:
            found = {"loss": self.step()}
        finally:
            seconds = _cpu() - start
            listener.stop()
        peak = listener.peak(self.model)
        named = self.model.named_parameters()
        found |= {name: one.grad.clone() for name, one in named if one.grad is not None}
        found |= {name: one.clone() for name, one in self.model.named_buffers()}
        return found, peak, seconds

    def later(self) -> int:
        """The peak of the third step."""
        self.step()
        return measure.peak(self.step, self.model)


def ratio(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> float:
    """The median of quotients of steps that run in turns."""
    found = []
    for turn in range(rounds):
        pair = {}
        for step in (one, other) if turn % 2 else (other, one):
            start = time.process_time()
            step()
            pair[step] = time.process_time() - start
        found.append(pair[one] / pair[other])
    return statistics.median(found)


def compared(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> str:
    """Whether all bits are equal, or what differs most, relative to its largest value."""
    assert found.keys() == expected.keys()
    worst, where = 0.0, ""
    for name, one in expected.items():
        if not torch.equal(one, found[name]):
            scale = one.double().abs().max().item() or 1.0
            most = (one.double() - found[name].double()).abs().max().item() / scale
            if most >= worst:
                worst, where = most, name
    return f"{worst:.0e} in {where}" if where else "equal"


def default(name: str, folder: Path) -> Cell:
    """Inductor alone; what it computes is kept for the others."""
    run = Run(*_made(name), backend="inductor")
    cell = Cell(name, "default")
    found, cell.first, cell.compiling = run.first()
    cell.later = run.later()
    torch.save(found, folder / "expected.pt")
    return cell


def planned(name: str, way: str, whole: int, rounds: int, folder: Path) -> Cell:
    """rk within a share of ``whole``, or without a budget."""
    share = None if way == "none" else int(way) / 100
    budget = "100%" if share is None else int(share * whole)
    plans, settle = [], backend.Planned.settle

    def settled(one: backend.Planned) -> None:
        plans.append(one)
        settle(one)

    backend.Planned.settle = settled
    cell = Cell(name, way, whole if share is None else budget)
    made = _made(name)
    run = Run(*made, backend="rk", options={"codegen": "inductor", "budget": budget})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found, cell.first, cell.compiling = run.first()
            cell.later = run.later()
        except Exception as error:  # noqa: BLE001 - a refusal is an answer, too
            cause = getattr(error, "inner_exception", error)
            least = getattr(cause, "smallest_bytes", None)
            told = f"; {100 * least / whole:.0f} % would do" if least else f": {cause}"
            cell.said = f"{type(cause).__name__}{told}"
            return cell
    cell.said = "; ".join(str(one.message) for one in said if str(one.message).startswith("rk:"))
    cell.bits = compared(found, torch.load(folder / "expected.pt"))
    if plans:
        cell.planned = max(one.foreseen for one in plans)
        cell.replayed = max(one.peak for one in plans)
        base = sum(one.schedule.base_time for one in plans)
        cell.overhead = 100 * (sum(one.schedule.time for one in plans) / base - 1)
    if rounds:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "default")
        other = Run(*made, backend="inductor")
        other.step()
        cell.step = ratio(run.step, other.step, rounds)
    return cell


def _made(name: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    return model.train(), sample


def main() -> None:
    """One cell as JSON on standard output."""
    import json

    name, way, whole, rounds, folder = sys.argv[1:]
    torch.set_num_threads(1)
    if way == "default":
        cell = default(name, Path(folder))
    else:
        cell = planned(name, way, int(whole), int(rounds), Path(folder))
    print(json.dumps(dataclasses.asdict(cell)))


if __name__ == "__main__":
    main()
