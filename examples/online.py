"""Steps under a memory budget against plain PyTorch and against torch.utils.checkpoint, as a table in Markdown.

``python examples/online.py [--steps N]``. Peaks are counted by a dispatch mode of this file, which knows nothing of rk. The
models are DTR's: an LSTM written as cells, and the same cell over a binary tree; and PyTorch's GRU over sequences of another
length at every step. Gradients are compared bit by bit.
"""

from __future__ import annotations

import argparse
import statistics
import time
import weakref

import rk
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Cell(nn.Module):
    """DTR's cell: the states of all children are summed; the sum of memories is in place."""

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.gates_x, self.gates_h = nn.Linear(width, 3 * state), nn.Linear(state, 3 * state, bias=False)
        self.forget_x, self.forget_h = nn.Linear(width, state), nn.Linear(state, state, bias=False)

    def forward(self, x, *children):
        hidden, memories = children[::2], children[1::2]
        gates = self.gates_x(x)
        if hidden:
            gates = gates + self.gates_h(sum(hidden[1:], hidden[0]))
        i, o, u = gates.chunk(3, 1)
        c = i.sigmoid() * u.tanh()
        for h, memory in zip(hidden, memories, strict=True):
            c += torch.sigmoid(self.forget_x(x) * self.forget_h(h)) * memory
        return o.sigmoid() * c.tanh(), c


def sequence(cell, inputs, run, turn):
    """The cell over a list."""
    state = ()
    for x in inputs:
        state = run(cell, x, *state)
    return state[1].sum()


def tree(cell, inputs, run, turn):
    """The cell over a complete binary tree, in the order of a heap."""
    states = [()] * (2 * len(inputs) + 3)
    for node in reversed(range(len(inputs))):
        states[node] = run(cell, inputs[node], *states[2 * node + 1], *states[2 * node + 2])
        states[2 * node + 1] = states[2 * node + 2] = ()
    return states[0][1].sum()


def layer(gru, inputs, run, turn):
    """A layer of PyTorch's over a part of a sequence, of a length that depends on the step."""
    return run(gru, torch.stack(inputs[: len(inputs) - turn % 3 * 8]))[0].sum()


class Peak(TorchDispatchMode):
    """The most bytes of storages, made by operators while this is entered, that were alive at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Runs the operator, then counts its outputs."""
        result = func(*args, **(kwargs or {}))
        outside = {t.untyped_storage()._cdata for t in args if isinstance(t, torch.Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.known | outside:
                    self.known.add(storage._cdata)
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())
        return result

    def _gone(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def measure(step, steps):
    """Median seconds of a step, its peak, and the gradients of the last one."""
    times = []
    for turn in range(steps + 1):
        start = time.perf_counter()
        gradients = step(turn)
        times.append(time.perf_counter() - start)
    with Peak() as peak:
        step(0)
    return statistics.median(times[1:]), peak.peak, gradients


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(
        "| model | how | ms | of eager | peak MB | of eager | bits | recomputations | decisions, us per call |"
    )
    print("|---|---|--:|--:|--:|--:|---|--:|--:|")
    for name, make, walk, count in (
        ("LSTM, 48 cells", Cell, sequence, 48),
        ("TreeLSTM, 63 nodes", Cell, tree, 63),
        ("nn.GRU, 32 to 48 steps", nn.GRU, layer, 48),
    ):
        cell = make(128, 256)
        inputs = [torch.randn(64, 128) for _ in range(count)]

        def step(turn, run, context=None, cell=cell, inputs=inputs, walk=walk):
            cell.zero_grad()
            with context or torch.enable_grad():
                walk(cell, inputs, run, turn).backward()
            return [p.grad for p in cell.parameters()]

        plain = lambda cell, *state: cell(*state)
        again = lambda cell, *state: checkpoint(cell, *state, use_reentrant=False)
        eager = measure(lambda turn, step=step, plain=plain: step(turn, plain), steps)
        rows = [("eager", eager, None)]
        rows.append(
            (
                "torch checkpoint, every cell" if make is Cell else "torch checkpoint, the layer",
                measure(lambda turn, step=step, again=again: step(turn, again), steps),
                None,
            )
        )
        for percent in (100, 90, 60, 50, 40):
            budget = rk.memory_budget(eager[1] * percent // 100)
            found = measure(
                lambda turn, step=step, plain=plain, budget=budget: step(turn, plain, budget), steps
            )
            rows.append((f"rk, {percent} %", found, budget.statistics()))
        for how, (seconds, peak, gradients), found in rows:
            equal = all(torch.equal(a, b) for a, b in zip(gradients, eager[2], strict=True))
            runs = found["calls"] + found["recomputations"] if found else 0
            print(
                f"| {name} | {how} | {seconds * 1e3:.1f} | {seconds / eager[0]:.2f} | {peak / 1e6:.2f} "
                f"| {peak / eager[1]:.2f} | {'equal' if equal else 'DIFFERENT'} "
                f"| {found['recomputations'] // (steps + 2) if found else '-'} "
                f"| {found['decision_ns'] / 1e3 / runs if found else 0:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
