"""Whether a budget governed a step at all, and whether it was kept, as PyTorch's allocator sees it."""

from __future__ import annotations

import gc

from campaigns.caller import Run, given, rows_of
from campaigns.program import Program
from campaigns.ways import Graphs, Way
from rk._plan import measure


def ungoverned(program: Program, way: Way, run: Run, graphs: Graphs) -> str:
    """Why nothing of a step that trains came to rk without anybody being told, or nothing."""
    if way.kind != "compile" or graphs.training() or any("rk" in one for one in run.warnings):
        return ""
    if not run.trained and program.input not in ("leaf", "computed"):
        return ""
    return "no graph with a backward pass came to rk, and nobody was told"


def over(program: Program, way: Way, run: Run, graphs: Graphs) -> str:
    """By how much one more step takes more than its budget, or nothing. Looked at are steps that are one
    graph, whose caller does nothing between forward and backward.
    """
    caller = (program.output, program.input, program.change, program.hooks, program.wrap, program.forwards)
    if caller != ("loss", "plain", "", (), "model", 1) or program.autocast or program.rounds > 1:
        return ""
    if way.kind == "online":
        online = run.context
        allowed = (online.bytes or online.meter.peak) + online.meter.largest
        return f"{online.meter.peak} bytes of {allowed}" if online.meter.peak > allowed else ""
    if way.kind != "compile" or "scope" in way.options or len(graphs.compiled) != 1 or not graphs.training():
        return ""
    rows = program.batches[-1]
    x, _ = rows_of(program, rows, 0)
    more = {**given(program, rows, 0), **run.kept}
    inputs = [x, *(more[name] for name in program.takes())]
    # Dynamo may have been made to forget the graph: it is compiled before the measurement, not in it.
    run.compiled(*inputs).backward()
    for one in run.trained:
        one.grad = None
    gc.collect()
    with measure.Addresses() as addresses:
        run.compiled(*inputs).backward()
    peak = addresses.peak(one.grad for one in run.trained if one.grad is not None)
    compiled = graphs.training()[-1]
    if way.options.get("codegen") == "rk":
        measured = compiled._program.measured()
        # What leaves the step is PyTorch's, in blocks with a header.
        peak += measured.arena - 64 * (measured.left + 4)
    return f"{peak} bytes of {compiled.schedule.budget}" if peak > compiled.schedule.budget else ""
