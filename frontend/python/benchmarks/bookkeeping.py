"""``python -m benchmarks.bookkeeping``: what it takes to know which plan a call of a layer runs.

Forty-eight equal layers are trained until their sequence is known. Then the passes of all plans are replaced
by what gives back the results of a call that has run, and the step is driven as autograd drives it, where
nothing records gradients: 48 forward halves, and 48 backward halves in the reverse order. What is left is
rk's: the choice, tickets, what is put aside, slots. The smallest of many steps is told, because everything
else on the machine adds to it; and how often PyTorch makes a tensor of one number in that time, because
machines differ by more than programs do.
"""

from __future__ import annotations

import argparse
import functools
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rk._run import group
from rk._run.variants import Code, Switch

LAYERS = 48
STEPS = 400


class Layer(nn.Module):
    """A norm, two matrices, a residual."""

    def __init__(self, width: int = 32) -> None:
        """``width`` of what goes in and comes out."""
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same size."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def trained(budget: int) -> tuple[nn.Module, Callable[[], None]]:
    """Layers whose sequence is known, and a step of them."""
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    for layer in model:
        layer.compile(backend="rk", options={"budget": budget})

    def step() -> None:
        model.zero_grad()
        model(torch.randn(64, 32, requires_grad=True)).square().mean().backward()

    for _ in range(3):
        step()
    return model, step


def _recording(run: Callable[[list[Any]], Any], seen: list[Any]) -> Callable[[list[Any]], Any]:
    """The pass; what it is given, and what it gives, is added to ``seen``."""

    def recorded(args: list[Any]) -> list[Any]:
        given = list(args)
        seen[:] = given, list(run(args))
        return list(seen[1])

    return recorded


def _replay(seen: list[Any], _: list[Any]) -> list[Any]:
    return list(seen[1])


def without_passes(model: nn.Module, step: Callable[[], None]) -> Callable[[], None]:
    """A step of what is left."""
    (shared,) = group.GROUPS.values()
    (switch,) = (one for one in gc.get_objects() if type(one) is Switch and one._owner in shared.classes)
    codes: set[Code] = {switch.base, *(one.code for one in shared.known[-1].variants)}
    seen: dict[tuple[Code, str], list[Any]] = {(code, name): [] for code in codes for name in _PASSES}
    for (code, name), found in seen.items():
        setattr(code, name, _recording(getattr(code, name), found))
    step()
    for (code, name), found in seen.items():
        setattr(code, name, functools.partial(_replay, found))
    model.zero_grad()
    args = next(found[0] for (_, name), found in seen.items() if name == "forward" and found)
    tangent = torch.zeros(64, 32)
    handed = switch._handed

    @torch.no_grad()
    def left() -> None:
        calls = [switch._forward(list(args)) for _ in range(LAYERS)]
        while calls:
            switch._backward([*calls.pop()[handed:], tangent])

    return left


_PASSES = ("forward", "backward")


def of_a_tensor(repetitions: int = 50) -> float:
    """Seconds that PyTorch takes to make a tensor of one number, at the least."""
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        for _ in range(repetitions):
            torch.full((), 1, device="cpu")
        seconds.append(time.perf_counter() - start)
    return min(seconds) / repetitions


def main() -> None:
    """Reads the command line; one line goes to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bookkeeping", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--budget", type=int, default=4_000_000, help="bytes of the step")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    left = without_passes(*trained(given.budget))
    (shared,) = group.GROUPS.values()
    left()
    choices, seconds = shared.times, []
    for _ in range(given.steps):
        start = time.perf_counter()
        left()
        seconds.append(time.perf_counter() - start)
    if shared.times != choices or shared.step.is_careful:
        raise SystemExit("the step that was driven is not the one that is known")
    names = ", ".join(dict.fromkeys(one.name for one in shared.known[-1].variants))
    call, tensor = min(seconds) / LAYERS, of_a_tensor()
    print(
        f"{1e6 * call:.1f} us a call, {call / tensor:.1f} times what torch.full(()) takes, "
        f"of {LAYERS} calls that run {names}"
    )


if __name__ == "__main__":
    main()
