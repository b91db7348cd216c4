"""``python -m benchmarks --compile-time``: what rk itself adds to compiling a model, and to running a step.

Every number is taken in a process of its own, as a user meets it: once with an empty cache, once with the
plan on disk. Counted is what runs in rk's hooks (reading the joint graph, costs, passes, planning, writing
the two graphs); Dynamo and AOTAutograd are not. What AOTAutograd's own partitioner takes on the same graph,
which rk's stands in for, is shown beside it. CPU seconds are this process's; on a busy machine they say more.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

LAYERS = (12, 48)
BUDGET = "60%"
STEPS = 50


@dataclasses.dataclass
class Spent:
    """Seconds in rk's hooks."""

    wall: float = 0.0
    cpu: float = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time is added."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.wall += time.perf_counter() - wall
                self.cpu += time.process_time() - cpu

        return timed


def compiled_once(layers: int, cache: str) -> dict[str, float]:
    """Compiles GPT-2 in this process; milliseconds of rk, and of the partitioner that it stands in for."""
    from torch._functorch.partitioners import default_partition

    from benchmarks import cells
    from rk._compile import backend as torch_backend

    model, sample = cells.gpt2(layers, width=192, batch=4, length=64)
    ours, theirs, nodes = Spent(), Spent(), 0
    partition = torch_backend.Compiled._partition

    def both(self: Any, gm: Any, inputs: Any, **about: Any) -> Any:
        nonlocal nodes
        nodes = len(gm.graph.nodes)
        theirs.around(default_partition)(gm, inputs, **about)
        return ours.around(partition)(self, gm, inputs, **about)

    torch_backend.Compiled._partition = both
    for name in ("_forward", "_backward"):
        setattr(torch_backend.Compiled, name, ours.around(getattr(torch_backend.Compiled, name)))
    options = {"budget": BUDGET, "cache_dir": cache}
    run = torch.compile(model, backend=torch_backend.rk, options=options)
    run(sample).last_hidden_state.sum().backward()
    return {
        "nodes": nodes,
        "wall": 1e3 * ours.wall,
        "cpu": 1e3 * ours.cpu,
        "default wall": 1e3 * theirs.wall,
        "default cpu": 1e3 * theirs.cpu,
    }


def per_step() -> dict[str, float]:
    """CPU milliseconds of a step of a GPT-2 that is so small that Python and dispatch are most of it."""
    from benchmarks import cells
    from rk._compile import backend as torch_backend

    torch.set_num_threads(1)
    steps: dict[str, Callable[[], None]] = {}
    for name, backend in (("aot_eager", "aot_eager"), ("rk", torch_backend.rk)):
        model, sample = cells.gpt2(12, width=16, batch=1, length=8)
        options = {"options": {"budget": "100%"}} if name == "rk" else {}
        run = torch.compile(model, backend=backend, **options)

        def step(run: Any = run, sample: Any = sample) -> None:
            run(sample).last_hidden_state.sum().backward()

        step()
        steps[name] = step
    seen: dict[str, list[float]] = {name: [] for name in steps}
    gc.disable()
    for _ in range(STEPS):
        for name, step in steps.items():
            start = time.process_time()
            step()
            seen[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(times) for name, times in seen.items()}


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.compile_time", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def table(rounds: int) -> str:
    """All numbers as Markdown; medians over rounds."""
    lines = [
        "| GPT-2 | nodes | empty cache, ms | CPU ms | plan on disk, ms | CPU ms | AOTAutograd, ms | CPU ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for layers in LAYERS:
        cold, hit = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(_child(str(layers), cache))
                hit.append(_child(str(layers), cache))
                print(f"{layers} layers: {cold[-1]}, {hit[-1]}", file=sys.stderr, flush=True)
        cells = [f"{layers} layers", str(int(cold[0]["nodes"]))]
        for rows, names in ((cold, ("wall", "cpu")), (hit, ("wall", "cpu", "default wall", "default cpu"))):
            cells += [f"{statistics.median(row[name] for row in rows):.0f}" for name in names]
        lines.append(f"| {' | '.join(cells)} |")
    step = _child("step")
    return "\n".join(
        [
            *lines,
            "",
            "A step of a GPT-2 so narrow that Python and dispatch are most of it takes "
            f"{step['rk']:.2f} ms of CPU with rk (nothing recomputed) and {step['aot_eager']:.2f} ms with "
            "`aot_eager`.",
            "",
        ]
    )


def main() -> None:
    """One measurement in this process, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description="One measurement.")
    parser.add_argument("what", help="layers, or step")
    parser.add_argument("cache", nargs="?")
    given = parser.parse_args()
    print(json.dumps(per_step() if given.what == "step" else compiled_once(int(given.what), given.cache)))


if __name__ == "__main__":
    main()
