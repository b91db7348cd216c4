"""What a unit takes: time and workspace.

Kernels that are not Inductor's own (matrix products, attention) are the calls that every codegen makes, and
are measured as those are (:mod:`rk._plan.costs`). Of Inductor's own kernels there is a stated model: a fixed
time per kernel, the bytes that it reads and writes by a bandwidth that is measured once, and on a CPU the
slow operations (:mod:`.operations`). They have no workspace. With the cost model ``roofline`` nothing is
timed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from rk._graph import joint, made_up, spelling
from rk._graph.graph_text import Call, Cost
from rk._inductor import lowering
from rk._inductor.units import Unit
from rk._plan import cache, costs, roofline

LAUNCH = 1000
"""Nanoseconds that a kernel takes besides its traffic."""
SAMPLE = {"cpu": 1 << 24, "cuda": 1 << 27}
"""Bytes that are read, and written, to measure the bandwidth: more than caches hold."""
REPEATS = 5


def of(
    units: Iterable[Unit], gradients: Container[fx.Node], device: torch.device, folder: Path, model: str
) -> dict[Unit, Cost]:
    """The cost of every unit; ``gradients`` are the values that no budget counts, ``model`` is the
    ``cost_model`` of the options.
    """
    units = list(units)
    calls = {one: _call(one.call, _places(one.node, gradients)) for unit in units for one in unit.externs}
    known = costs.of(calls.values(), device, folder, model=model)
    bandwidth = _bandwidth(device, folder) if model == "measured" else roofline.ceilings(device).bandwidth

    threads = torch.get_num_threads() if device.type == "cpu" else 0

    def cost(unit: Unit) -> Cost:
        externs = [known[calls[one].signature] for one in unit.externs]
        own = LAUNCH * unit.kernels + int(unit.moved / bandwidth * 1e9)
        own += int(unit.work / threads) if threads else 0
        workspace = unit.workspace + max((one.workspace for one in externs), default=0)
        return Cost(max(own + sum(one.nanoseconds for one in externs), 1), workspace)

    return {unit: cost(unit) for unit in units}


def _places(node: fx.Node, gradients: Container[fx.Node]) -> tuple[int, ...]:
    """Which results of a call no budget counts."""
    found = [0] if node in gradients else []
    found += [joint.picked(user)[1] for user in node.users if joint.is_getitem(user) and user in gradients]
    return tuple(sorted(found))


def workspace_of(
    kernel: Any, gradients: Container[fx.Node], device: torch.device, folder: Path, model: str
) -> int:
    """The bytes that an extern kernel asks for besides its results; ``gradients`` as above."""
    extern = lowering.extern(kernel)
    if extern is None:
        return 0
    call = _call(extern.call, _places(extern.node, gradients))
    return costs.of([call], device, folder, model=model)[call.signature].workspace


def _call(node: fx.Node, gradients: tuple[int, ...] = ()) -> Call:
    """A node as the costs know calls: by operator, arguments and the types of its operands."""
    operands: list[fx.Node] = []

    def spelled(value: Any) -> str:
        if isinstance(value, fx.Node):
            if joint.tensor_of(value) is None:
                return spelling.constant(value.meta.get("val") if value.op != "get_attr" else value.target)
            operands.append(value)
            return f"%{value.name}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(spelled, value))}]"
        return spelling.constant(value)

    about = spelling.operator(node.target)
    arguments = [spelled(value) for _, value in spelling.in_schema_order(about, node)]
    types = [spelling.type_of(joint.tensor_of(one), owner=True) for one in operands]
    made = [spelling.type_of(one, owner=True) for one in joint.results_of(node)]
    return Call(node, about.name, arguments, types, made, "", False, 0, gradients)


def _bandwidth(device: torch.device, folder: Path) -> float:
    """Bytes a second that a kernel reads and writes, measured once."""
    name = f"bandwidth-{cache.key_of(costs.versions(device))}"
    known = cache.read(folder, name)
    if known is None:
        known = {"bytes_per_second": _measured_bandwidth(device)}
        cache.write(folder, name, known)
    return known["bytes_per_second"]


def _measured_bandwidth(device: torch.device) -> float:
    sample = SAMPLE[device.type]
    with made_up.alone(device):
        source = torch.ones(sample // 4, device=device)
        arguments = (source, 2.0), {"out": torch.empty_like(source)}
        if device.type != "cpu":
            best = costs._timed_by_events(torch.mul, *arguments, device)
        else:
            best = min(costs._timed(torch.mul, *arguments) for _ in range(REPEATS))
    return 2 * sample / max(best, 1e-9)
