"""What a piece of training really takes: bytes from the allocator, seconds from the clock.

Peaks are above what is allocated when the measurement starts, which is rk's scope ``activations``: on the
CPU all that the allocator hands out meanwhile, elsewhere the device's own statistics.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from rk import capture
from rk.costs import Allocations


@dataclasses.dataclass
class Memory:
    """Bytes above the start; filled in when the measurement ends."""

    peak: int = 0
    left: int = 0


@contextlib.contextmanager
def memory(device: torch.device) -> Iterator[Memory]:
    """Measures what is allocated while the context lasts."""
    measured = Memory()
    if device.type == "cpu":
        with Allocations() as allocations:
            yield measured
        measured.peak, measured.left = allocations.peak, allocations.left
        return
    module = torch.get_device_module(device)
    module.synchronize(device)
    before = module.memory_allocated(device)
    module.reset_peak_memory_stats(device)
    yield measured
    module.synchronize(device)
    measured.peak = module.max_memory_allocated(device) - before
    measured.left = module.memory_allocated(device) - before


def device_of(model: nn.Module) -> torch.device:
    """Where a model lives: where its first parameter or buffer off the CPU is, else the CPU."""
    tensors = (*model.parameters(), *model.buffers())
    return next((one.device for one in tensors if one.device.type != "cpu"), torch.device("cpu"))


def scalar(output: Any) -> torch.Tensor:
    """A loss from whatever a model returns: its ``loss`` if it names one, else the sum of all means."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss
    leaves = [one for one in torch.utils._pytree.tree_leaves(output) if differentiable(one)]
    if not leaves:
        raise ValueError("the model returns nothing that has a gradient; give loss=...")
    return torch.stack([one.float().mean() for one in leaves]).sum()


def differentiable(value: Any) -> bool:
    """Whether a value is a tensor that asks for a gradient."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def training_step(
    run: Callable[..., Any], sample: Any, loss: Callable[[Any], torch.Tensor] = scalar
) -> Callable[[], torch.Tensor]:
    """One call forward and backward, as a function that returns the loss."""
    args, kwargs = capture.arguments(sample)

    def step() -> torch.Tensor:
        value = loss(run(*args, **kwargs))
        value.backward()
        return value.detach()

    return step


def peak(step: Callable[[], Any], model: nn.Module) -> int:
    """Peak bytes of a step whose parameter gradients are there already, so that they do not count."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gc.collect()
    with memory(device_of(model)) as measured:
        step()
    return measured.peak


def seconds(step: Callable[[], Any], device: torch.device, repeats: int = 3) -> float:
    """The median duration of a step."""
    wait = (lambda: None) if device.type == "cpu" else torch.get_device_module(device).synchronize
    durations = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        step()
        wait()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)
