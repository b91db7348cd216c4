"""``python -m benchmarks.layers``: layers that are compiled one by one beside the whole model as one graph.

The same model within the same bytes, a share of what it takes in ``aot_eager``. Two predictions of extra time
are set beside each other, both in percent of the whole model's time without recomputation: that of the one
graph's plan, and that of the choice for all calls of the layers (:mod:`rk._run`). What lies beside the layers
counts in both budgets. Peaks are the allocator's, in the first step and in the last. With ``--reproducible``
times are those of a model instead of measured ones, and the table is the same on every machine.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import rk
from benchmarks.cells import gpt2, llama
from rk._plan import measure
from rk._run import group, steps

SHARES = (0.8, 0.6, 0.45)
STEPS = 4
Make = Callable[[], tuple[nn.Module, Any]]
Layers = Callable[[nn.Module], Iterable[nn.Module]]


def vit() -> tuple[nn.Module, Any]:
    """ViT-B's 12 layers at a quarter of its width, on images of 64 x 64."""
    from torchvision.models import VisionTransformer

    return VisionTransformer(64, 8, 12, 3, 192, 768, num_classes=10).train(), torch.randn(4, 3, 64, 64)


MODELS: dict[str, tuple[Make, Layers]] = {
    "gpt2": (lambda: gpt2(layers=12, batch=2, length=128), lambda model: model.h),
    "llama": (lambda: llama(layers=12, batch=2, length=128), lambda model: model.layers),
    "vit": (vit, lambda model: model.encoder.layers),
}


def _peaks(model: nn.Module, sample: Any, compiled: Callable[[nn.Module], None]) -> list[int]:
    torch._dynamo.reset()
    group.GROUPS.clear()
    twin = copy.deepcopy(model)
    compiled(twin)
    step = measure.training_step(twin, sample)
    return [measure.peak(step, twin) for _ in range(STEPS)]


def _extra(of: group.Group) -> int:
    """Nanoseconds of recomputation in a step."""
    known = next(reversed(of.known), None)
    if known is None:
        return sum(one.base.schedule.time - one.base.schedule.base_time for one in of.classes)
    return known.time - sum(one.base.schedule.base_time for one in steps.owners(known.trail))


def rows(name: str) -> Iterable[str]:
    """Lines of the table."""
    torch.manual_seed(0)
    make, layers = MODELS[name]
    model, sample = make()
    peak = _peaks(model, sample, lambda one: one.compile(backend="aot_eager"))[-1]
    for share in SHARES:
        backend: dict[str, Any] = {"backend": "rk", "options": {"budget": int(share * peak)}}

        def by_layers(model: nn.Module, backend: dict[str, Any] = backend) -> None:
            for layer in layers(model):
                layer.compile(**backend)

        base, cells = 0, []
        for compiled in (lambda one, backend=backend: one.compile(**backend), by_layers):
            try:
                peaks = _peaks(model, sample, compiled)
            except Exception as error:  # noqa: BLE001 - a refusal is an answer, too
                cause = getattr(error, "inner_exception", error)
                least = getattr(cause, "smallest_bytes", None) or 0
                cells.append(f"{type(cause).__name__}: {100 * least / peak:.0f} % would do | ")
                continue
            (shared,) = group.GROUPS.values()
            base = base or sum(one.base.schedule.base_time for one in shared.classes)
            kept = " / ".join(f"{one / (share * peak):.3f}" for one in (peaks[0], peaks[-1]))
            cells.append(f"{100 * _extra(shared) / base:.1f} % | {kept}")
        yield f"| {name} | {100 * share:.0f} % | {' | '.join(cells)} |"


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--reproducible", action="store_true", help="times of a model, not measured ones")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| model | budget | one graph | peak of budget | by layers | peak of budget |")
    print("|---|---:|---:|---:|---:|---:|")
    with rk.config.patch(reproducible=given.reproducible):
        for name in given.models:
            for row in rows(name):
                print(row, flush=True)


if __name__ == "__main__":
    main()
