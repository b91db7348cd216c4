"""Whether a budget governed a step at all, and whether it was kept, as PyTorch's allocator sees it."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import torch
from torch import nn

import rk
from campaigns.caller import Run, given, rows_of
from campaigns.program import Program
from campaigns.ways import Graphs, Way
from rk._plan import measure

CALLER = {
    "output": "loss",
    "input": "plain",
    "change": "",
    "hooks": (),
    "wrap": "model",
    "forwards": 1,
    "rounds": 1,
    "autocast": False,
}
"""A caller who does nothing but train one model as one graph."""
NOT_PROMISED = ("on_infeasible=", "adds its gradients to others, which it did not do")
"""Words of warnings that say of a micro-batch that it may take more than the budget."""


def ungoverned(program: Program, way: Way, run: Run, graphs: Graphs) -> str:
    """Why nothing of a step that trains came to rk without anybody being told, or nothing."""
    if way.kind != "compile" or graphs.training() or any("rk" in one for one in run.warnings):
        return ""
    if not run.trained and program.input not in ("leaf", "computed"):
        return ""
    return "no graph with a backward pass came to rk, and nobody was told"


def standing(model: nn.Module) -> int:
    """Bytes of the parameters and buffers of a model."""
    tensors = [*model.parameters(), *model.buffers()]
    parts = [inner for one in tensors for inner in _parts(one)]
    return sum({one.data_ptr(): one.nbytes() for one in (part.untyped_storage() for part in parts)}.values())


def _parts(one: Any) -> list[torch.Tensor]:
    if not hasattr(one, "__tensor_flatten__"):
        return [one.detach()]
    return [inner for name in one.__tensor_flatten__()[0] for inner in _parts(getattr(one, name))]


def over(program: Program, way: Way, run: Run, graphs: Graphs) -> str:
    """By how much one more step, or one more micro-batch of it, takes more than its budget, or nothing.
    Looked at are steps that are one graph, whose caller does nothing between forward and backward.
    """
    if any(getattr(program, name) != value for name, value in CALLER.items()):
        return ""
    if way.kind == "online":
        online = run.context
        allowed = (online.bytes or online.meter.peak) + online.meter.largest
        return f"{online.meter.peak} bytes of {allowed}" if online.meter.peak > allowed else ""
    if way.kind not in ("compile", "inductor") or len(graphs.compiled) != 1 or not graphs.training():
        return ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = _peaks(program, way, run, graphs)
    texts = [*run.warnings, *(str(one.message) for one in told)]
    if any("with Inductor's kernels" in one for one in texts):
        return ""
    if any(words in one for one in texts for words in NOT_PROMISED):
        del found[1:]
    over = [f"{peak} bytes of {allowed} ({name})" for name, peak, allowed in found if peak > allowed]
    return ", ".join(over)


def _peaks(program: Program, way: Way, run: Run, graphs: Graphs) -> list[tuple[str, int, int]]:
    """What a step takes, and where the budget is one in bytes, what a micro-batch takes whose gradients are
    added to those of another; each with what it may take.
    """
    rows = program.batches[-1]
    x, _ = rows_of(program, rows, 0)
    more = {**given(program, rows, 0), **run.kept}
    inputs = [x, *(more[name] for name in program.takes())]

    def micro_batch() -> None:
        run.compiled(*inputs).backward()

    def without_gradients() -> None:
        for one in run.trained:
            one.grad = None
        gc.collect()

    # Dynamo may have been made to forget the graph: it is compiled before the measurement, not in it.
    without_gradients()
    micro_batch()
    without_gradients()
    is_total = way.options.get("scope") == "total"
    beside = standing(run.model) if is_total else 0
    with measure.Addresses() as addresses:
        micro_batch()
    made = [one.grad for one in run.trained if one.grad is not None]
    compiled = graphs.training()[-1]
    allowed = _allowed(compiled, way)
    found = [("a step", addresses.peak([] if is_total else made) + beside, allowed)]
    if way.share is not None and compiled.schedule.unmet is None:
        beside += sum(one.nbytes for one in made) if is_total else 0
        try:
            # A class with one plan is compiled again for it.
            micro_batch()
            with measure.Addresses() as addresses:
                micro_batch()
        except rk.BudgetError:
            return found
        if compiled.schedule.unmet is None:
            found.append(("its second micro-batch", addresses.peak([]) + beside, allowed))
    if way.options.get("codegen") == "rk":
        measured = compiled._program.measured()
        # What leaves the step is PyTorch's, in blocks with a header.
        arena = measured.arena - 64 * (measured.left + 4)
        found = [(name, peak + arena, allowed) for name, peak, allowed in found]
    return found


def _allowed(compiled: Any, way: Way) -> int:
    """Bytes, as the way's budget counts them. Where nothing fits, it is the smallest that was found."""
    plan = compiled.schedule
    if way.share is not None and plan.unmet is None:
        return int(compiled.options.budget)
    # Inductor's kernels may have been planned for less than was asked.
    asked = compiled._asked if way.kind == "inductor" else plan.budget
    return int(asked) + (plan.resident if way.options.get("scope") == "total" else 0)
