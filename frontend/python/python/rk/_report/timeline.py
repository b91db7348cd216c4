"""A step over time: what lies in memory during each run, why, and from when to when.

The lives of values and their categories are those of the plan's page (passes/report), so what is stacked
here adds up to the peak that a plan promises.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rk import _rk
from rk.errors import OptionError

if TYPE_CHECKING:
    from rk._plan.planning import Plan

CATEGORIES = ("saved", "recomputed", "activations", "gradients", "workspace", "states")
"""Kept from forward for backward; made again; made and freed in forward; made by backward; what a kernel
needs while it runs; states of generators that wait for a second run.
"""


@dataclasses.dataclass(frozen=True)
class Life:
    """A time during which something is in memory, for one reason."""

    name: str
    size: int
    node: int
    first: int
    """The first run during which it is there."""
    last: int
    """The last one."""
    category: str


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The runs of a step in their order."""

    runs: tuple[tuple[int, int], ...]
    """Per run: the node and the bytes in use, as the judge counts them."""
    seconds: tuple[float, ...]
    """Of each run."""
    lives: tuple[Life, ...]

    @property
    def starts(self) -> list[float]:
        """When each run begins, and when the last one ends, in seconds."""
        return [0.0, *itertools.accumulate(self.seconds)]

    def stacks(self) -> dict[str, list[int]]:
        """Per category, the bytes in use during each run."""
        changes = {one: [0] * (len(self.runs) + 1) for one in CATEGORIES}
        for life in self.lives:
            changes[life.category][life.first] += life.size
            changes[life.category][life.last + 1] -= life.size
        return {one: list(itertools.accumulate(change[:-1])) for one, change in changes.items()}

    def peak(self) -> int:
        """The first run during which most is in use."""
        return max(range(len(self.runs)), key=lambda run: self.runs[run][1])

    def during(self, run: int) -> list[Life]:
        """What is in memory during a run, the largest first."""
        there = [life for life in self.lives if life.first <= run <= life.last]
        return sorted(there, key=lambda life: (-life.size, life.first))


def of(plan: Plan) -> tuple[Timeline, Timeline]:
    """The step as it is, and as planned."""
    memory = json.loads(_rk.memory(plan.stages["scheduled"]))
    return tuple(_timeline(memory, side) for side in ("before", "after"))


def _timeline(memory: dict[str, Any], side: str) -> Timeline:
    runs = memory[side]
    seconds = tuple(max(memory["nodes"][node]["time_ns"], 1) * 1e-9 for node, _ in runs)
    lives = tuple(Life(*life) for life in memory[f"lives_{side}"])
    return Timeline(tuple((node, size) for node, size in runs), seconds, lives)


def write(plan: Plan, path: Path) -> Path:
    """Writes the planned step for a viewer: ``.json`` for Chrome's and Perfetto's, ``.pickle`` for PyTorch's
    (pytorch.org/memory_viz). Raises OptionError for another ending.
    """
    from rk._plan.files import save

    if path.suffix == ".json":
        save(path, json.dumps(chrome_trace(plan)).encode())
    elif path.suffix == ".pickle":
        save(path, pickle.dumps(memory_snapshot(plan)))
    else:
        raise OptionError(f"'{path.name}' ends in neither .json (Chrome, Perfetto) nor .pickle (memory_viz)")
    return path


def chrome_trace(plan: Plan) -> dict[str, Any]:
    """The step before and after in Chrome's trace format: runs as slices, memory as a counter by category."""
    events: list[dict[str, Any]] = []
    for process, (title, timeline) in enumerate(
        zip(("as it is", "as planned"), of(plan), strict=True), start=1
    ):
        events.append({"ph": "M", "name": "process_name", "pid": process, "tid": 1, "args": {"name": title}})
        events.extend(_slices(plan, timeline, process))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _slices(plan: Plan, timeline: Timeline, process: int) -> Iterator[dict[str, Any]]:
    seen: set[int] = set()
    starts, stacks = timeline.starts, timeline.stacks()
    for run, (place, size) in enumerate(timeline.runs):
        node, at = plan.nodes[place], {"pid": process, "tid": 1, "ts": starts[run] * 1e6}
        kind = "again" if place in seen else "backward" if node.backward else "forward"
        seen.add(place)
        about = {"operators": list(node.operators), "bytes in use": size}
        yield {
            "ph": "X",
            "name": node.name,
            "cat": kind,
            "dur": timeline.seconds[run] * 1e6,
            "args": about,
            **at,
        }
        yield {"ph": "C", "name": "bytes", "args": {one: stacks[one][run] for one in CATEGORIES}, **at}
    last = {"pid": process, "tid": 1, "ts": starts[-1] * 1e6}
    yield {"ph": "C", "name": "bytes", "args": dict.fromkeys(CATEGORIES, 0), **last}


def memory_snapshot(plan: Plan) -> dict[str, Any]:
    """The planned step as ``torch.cuda.memory._snapshot`` would have recorded it: every value is allocated by
    the run that makes it, and freed after the last one that needs it. Addresses are one after the other.
    """
    timeline = of(plan)[1]
    starts, events, address = timeline.starts, [], 1 << 32
    for life in timeline.lives:
        frame = {"name": plan.nodes[life.node].name, "filename": life.category, "line": life.first}
        about = {"addr": address, "size": life.size, "stream": 0, "frames": [frame]}
        made, freed = _microseconds(starts[life.first]), _microseconds(starts[life.last + 1])
        events.append((life.first, 1, {"action": "alloc", "time_us": made, **about}))
        for action in ("free_requested", "free_completed"):
            events.append((life.last + 1, 0, {"action": action, "time_us": freed, **about}))
        address += -(-life.size // 512) * 512
    trace = [event for _, _, event in sorted(events, key=lambda one: one[:2])]
    return {"segments": [], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}


def _microseconds(seconds: float) -> int:
    return int(seconds * 1e6)
