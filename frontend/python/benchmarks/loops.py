"""``python -m benchmarks.loops``: training loops of layers that are compiled one by one, within one budget.

Each network trains for some steps of AdamW, with one micro-batch or four in a step, within a share of what
the same loop takes where every layer is compiled with ``aot_eager``. Set beside that loop: all bits of losses
are compared after every step, those of parameters, buffers and the generator at the end; and the allocator's
peak of every step, the first included, is set against the budget. A budget that is refused is tried again
with the smallest one that the error names. Bits that differ, or a peak above a budget, end with exit code 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import rk
from benchmarks.cells import gpt2, llama
from benchmarks.layers import vit
from benchmarks.small_models import Unet
from rk._codegen import bits
from rk._plan import measure
from rk._run import group

SHARES = (0.8, 0.6, 0.45)
MICRO_BATCHES = (1, 4)
STEPS = 5
ATTEMPTS = 5
Make = Callable[[], tuple[nn.Module, Any]]
Layers = Callable[[nn.Module], Iterable[nn.Module]]


def unet() -> tuple[nn.Module, Any]:
    """Three levels, each of which is a stage."""
    return Unet(width=16, depth=3), torch.randn(4, 3, 64, 64)


def stages(model: nn.Module) -> Iterable[nn.Module]:
    """The stages of a :class:`Unet`."""
    return [model.first, *model.down, *model.up]


MODELS: dict[str, tuple[Make, Layers]] = {
    "llama_8": (lambda: llama(layers=8, batch=2, length=128), lambda model: model.layers),
    "llama_24": (lambda: llama(layers=24, batch=2, length=128), lambda model: model.layers),
    "gpt2": (lambda: gpt2(layers=6, batch=2, length=128), lambda model: model.h),
    "vit": (vit, lambda model: model.encoder.layers),
    "unet": (unet, stages),
}


@dataclasses.dataclass
class Loop:
    """What a loop leaves."""

    peaks: list[int]
    """Bytes of each step above its begin, without the gradients of parameters."""
    state: list[torch.Tensor]
    planned: int
    """The most that a choice for a sequence of calls, or a graph that is alone, is to take."""


def train(name: str, micro_batches: int, options: dict[str, Any] | None) -> Loop:
    """Trains a network from the same begin; ``options`` are rk's, or None for ``aot_eager``."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    torch.manual_seed(0)
    make, layers = MODELS[name]
    model, sample = make()
    for layer in layers(model):
        if options is None:
            layer.compile(backend="aot_eager")
        else:
            layer.compile(backend="rk", options=options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = measure.training_step(model, sample)
    losses: list[torch.Tensor] = []

    def step() -> None:
        losses.extend(run().detach() for _ in range(micro_batches))

    peaks = []
    for _ in range(STEPS):
        peaks.append(measure.peak(step, model))
        optimizer.step()
    left = [*model.parameters(), *model.buffers(), torch.get_rng_state()]
    return Loop(peaks, [*losses, *(one.detach() for one in left)], _planned())


def _planned() -> int:
    chosen = [known.peak for shared in group.GROUPS.values() for known in shared.known]
    return max(chosen or [one.peak for one in rk.plans()], default=0)


def cell(name: str, share: float, micro_batches: int, reference: Loop) -> tuple[str, bool]:
    """A line of the table, and whether it is as it should be."""
    whole = max(reference.peaks)
    budget, refused = int(share * whole), []
    for _ in range(ATTEMPTS):
        try:
            found = train(name, micro_batches, {"budget": budget})
            break
        except Exception as error:
            cause = getattr(error, "inner_exception", None) or error
            least = getattr(cause, "smallest_bytes", None)
            if not isinstance(cause, rk.BudgetError) or not least or least <= budget:
                raise
            refused.append(f"{100 * budget / whole:.0f} %")
            budget = least
    else:
        return (
            f"| {name} | {100 * share:.0f} % | {micro_batches} | refused: {', '.join(refused)} | | | |",
            False,
        )
    same = all(map(bits.equal, found.state, reference.state))
    kept = all(peak <= budget for peak in found.peaks)
    asked = f"{100 * budget / whole:.0f} %" + (f" ({', '.join(refused)} refused)" if refused else "")
    cells = [
        *(name, f"{100 * share:.0f} %", str(micro_batches), asked),
        f"{found.peaks[0] / budget:.3f} / {max(found.peaks) / budget:.3f}{'' if kept else ' **over**'}",
        f"{100 * (found.planned / max(found.peaks) - 1):+.1f} %",
        "equal" if same else "**differ**",
    ]
    return f"| {' | '.join(cells)} |", same and kept


def main() -> int:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--reproducible", action="store_true", help="times of a model, not measured ones")
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    print("| model | asked | micro-batches | budget | first step / all steps | planned to measured | bits |")
    print("|---|---:|---:|---:|---:|---:|---|")
    good = True
    with rk.config.patch(reproducible=given.reproducible):
        for name in given.models:
            for micro_batches in MICRO_BATCHES:
                reference = train(name, micro_batches, None)
                for share in SHARES:
                    start = time.perf_counter()
                    row, right = cell(name, share, micro_batches, reference)
                    print(row, flush=True)
                    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
                    good = good and right
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
