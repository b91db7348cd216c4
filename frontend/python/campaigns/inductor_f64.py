"""codegen ``inductor`` against Inductor itself, in double precision.

    cd frontend/python; python -m campaigns.inductor_f64                      # everything
    cd frontend/python; python -m campaigns.inductor_f64 resnet18 gpt2_4 --budgets 60
    cd frontend/python; python -m campaigns.inductor_f64 --codegen fx         # the same partitions, minutes

Every network of :mod:`campaigns.small_networks` runs one step by Inductor's own partition and by plans for
80, 60 and 40 % of the step's peak (where that is out of reach, for the smallest budget that is not), from
the same seed. Compared are outputs, gradients and buffers, relative to the largest element; parameters,
inputs and what was handed out must be the same bits after backward as before, and no storage may be saved
by two tensors. Inductor's gradient is itself
compared with the slope of its loss along a random direction, and where nothing is random, with eager
PyTorch's. A network that Inductor itself cannot run in double precision (attention on the CPU) runs in
single. The exit code is 1 when anything differs.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._inductor.config
from torch import nn

from campaigns.small_networks import NETWORKS

CLOSE = {torch.float64: 1e-10, torch.float32: 1e-4}
"""The largest relative difference that rounding explains, between steps with Inductor's kernels."""
CLOSE_TO_EAGER = {torch.float64: 1e-7, torch.float32: 1e-4}
"""The same between Inductor and eager PyTorch, whose kernels round otherwise: a steep network shows more."""
SLOPE = 1e-3
"""The largest relative error that a difference quotient in double precision may have."""
NO_SLOPE = ("views: bits", "views: detached")
"""Networks in whose loss is more than in their gradient: what is read as integers, or detached, has none."""
WIDTHS = (1e-6, 1e-7, 1e-8)
"""Half the widths of the quotients, of which the best counts: over a wide one the loss may have kinks, where
a ``ReLU`` begins or another element of a window is the largest, and a narrow one drowns in rounding.
"""
BUDGETS = (80, 60, 40)
BASELINE = {"inductor": "inductor", "fx": "aot_eager"}
"""Who runs the same kernels without a plan."""


@dataclasses.dataclass
class Step:
    """What one training step gave, and what it changed that is not its own."""

    loss: torch.Tensor
    found: dict[str, torch.Tensor]
    overwritten: list[str]
    again: int
    """Saved tensors whose storage another one has saved."""


def tensors(value: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a nest, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [one for inner in values for one in tensors(inner)]


class Trained(nn.Module):
    """A network with its loss; all that it returns is handed out, too."""

    def __init__(self, model: nn.Module) -> None:
        """``model`` returns a nest of tensors."""
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """The loss, then the outputs."""
        outputs = tensors(self.model(*inputs))
        return sum(one.sin().sum() for one in outputs if one.requires_grad), *outputs


def step(model: Trained, run: Callable[..., Any], inputs: Sequence[Any]) -> Step:
    """One step from a fixed seed, which leaves the model as it was but for its buffers and gradients."""
    model.zero_grad()
    torch.manual_seed(3)
    storages = []

    def pack(saved: torch.Tensor) -> torch.Tensor:
        storages.append(saved.untyped_storage().data_ptr())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        loss, *outputs = run(*inputs)
    again = len(storages) - len(set(storages))
    kept = {f"output {place}": one for place, one in enumerate(outputs)}
    kept |= {f"input {place}": one for place, one in enumerate(inputs)}
    kept |= dict(model.named_parameters()) | dict(model.named_buffers())
    before = {name: one.detach().clone() for name, one in kept.items()}
    loss.backward()
    overwritten = [name for name, one in kept.items() if not torch.equal(before[name], one.detach())]
    gradients = {
        f"gradient of {n}": p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }
    found = {name: one for name, one in before.items() if not name.startswith("input")} | gradients
    return Step(loss.detach().clone(), found, overwritten, again)


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference relative to the largest element, and where it is."""
    worst = (0.0, "")
    for name in one.keys() | other.keys():
        if name not in one or name not in other:
            return float("inf"), name
        left, right = one[name], other[name]
        if left.is_floating_point() and left.numel():
            apart = (left - right).abs().max() / max(left.abs().max().item(), 1e-3)
            worst = max(worst, (apart.item() if apart == apart else float("inf"), name))
        elif not torch.equal(left, right):
            return float("inf"), name
    return worst


def slope(model: Trained, run: Callable[..., Any], inputs: Sequence[Any], found: Step) -> float:
    """How far the gradient is from the slope of the loss along a direction, relative to the slope."""
    trained = {name: one for name, one in model.named_parameters() if one.grad is not None}
    generator = torch.Generator().manual_seed(4)
    directions = {n: torch.randn(p.shape, generator=generator, dtype=p.dtype) for n, p in trained.items()}
    expected = sum((found.found[f"gradient of {n}"] * d).sum() for n, d in directions.items()).item()
    start = {name: one.detach().clone() for name, one in trained.items()}

    def loss(distance: float) -> float:
        with torch.no_grad():
            for name, one in trained.items():
                one.copy_(start[name]).add_(directions[name], alpha=distance)
        torch.manual_seed(3)
        return run(*inputs)[0].item()

    quotients = [(loss(width) - loss(-width)) / (2 * width) for width in WIDTHS]
    return min(abs(one - expected) / max(abs(one), 1e-3) for one in quotients)


def is_random(model: nn.Module) -> bool:
    """Whether two eager steps from different seeds differ."""
    return any(
        isinstance(one, nn.RReLU) or getattr(one, "p", 0) or getattr(one, "dropout", 0)
        for one in model.modules()
    )


def row(
    name: str, codegen: str, budgets: Sequence[int], dtype: torch.dtype = torch.float64
) -> tuple[str, bool]:
    """One row of the table, and whether all is right."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name]()
    model, close = Trained(model.to(dtype)).train(), CLOSE[dtype]
    inputs = tuple(one.to(dtype) if one.is_floating_point() else one for one in inputs)

    def by(**compiler: Any) -> tuple[Trained, Callable[..., Any]]:
        torch._dynamo.reset()
        twin = copy.deepcopy(model)
        return twin, torch.compile(twin, dynamic=False, **compiler) if compiler else twin

    twin, run = by(backend=BASELINE[codegen])
    try:
        expected = step(twin, run, inputs)
    except RuntimeError as error:
        if dtype is torch.float64 and "expected scalar type Double but found Float" in str(error):
            return row(name, codegen, budgets, torch.float32)
        raise
    has_slope = dtype is torch.float64 and name not in NO_SLOPE
    off = slope(twin, run, inputs, expected) if has_slope else 0.0
    eager = "random" if is_random(model) else difference(step(*by(), inputs).found, expected.found)[0]
    cells, good = (
        [
            f"{off:.0e}" if has_slope else "none" if dtype is torch.float64 else "single",
            eager if eager == "random" else f"{eager:.0e}",
        ],
        off < SLOPE,
    )
    good &= eager == "random" or eager < CLOSE_TO_EAGER[dtype]
    for budget in budgets:
        options = {"codegen": codegen, "budget": f"{budget}%", "on_infeasible": "best"}
        twin, run = by(backend="rk", options=options)
        found = step(twin, run, inputs)
        apart, where = difference(expected.found, found.found)
        right = apart < close and not found.overwritten and not found.again
        told = f" WRONG at {where}; overwritten: {found.overwritten}; saved again: {found.again}"
        wrong = "" if right else told
        cells.append(f"{apart:.0e}{wrong}")
        good &= right
    return f"| {name} | {' | '.join(cells)} |", good


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.inductor_f64",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--codegen", choices=BASELINE, default="inductor")
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS, metavar="PERCENT")
    given = parser.parse_args()
    os.environ.setdefault("RK_CACHE_DIR", tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    # What is overwritten is decided before: kernels for one number at a time compile faster.
    torch._inductor.config.cpp.simdlen = 1
    budgets = " | ".join(f"{one} %" for one in given.budgets)
    name = BASELINE[given.codegen]
    print(f"| network | {name} and slope | {name} and eager | {budgets} |")
    print(f"|---|{'---:|' * (2 + len(given.budgets))}")
    bad = []
    for name in given.names or NETWORKS:
        start = time.perf_counter()
        try:
            text, good = row(name, given.codegen, given.budgets)
        except Exception as error:  # noqa: BLE001 - the next network may tell more
            text, good = f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:200]} |", False
        bad += [] if good else [name]
        print(text, flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    print(
        f"{len(bad)} of {len(given.names or NETWORKS)} differ: {', '.join(bad)}"
        if bad
        else f"all as {BASELINE[given.codegen]}"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
