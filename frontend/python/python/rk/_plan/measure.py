"""What a piece of training really takes: bytes from the allocator, seconds from the clock.

Peaks are above what is allocated when the measurement starts, which is rk's scope ``activations``: on the
CPU all that the allocator hands out meanwhile, elsewhere what its allocator was asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from rk._graph import capture
from rk._plan.costs import Allocations


@dataclasses.dataclass
class Memory:
    """Bytes above the start; filled in when the measurement ends."""

    peak: int = 0
    """The most at any moment."""
    left: int = 0
    """What is there at the end."""


@contextlib.contextmanager
def memory(device: torch.device) -> Iterator[Memory]:
    """Measures what is allocated while the context lasts.

    Args:
        device: The device whose allocator is asked.

    Yields:
        The numbers, which are filled in at the end.
    """
    measured = Memory()
    if device.type == "cpu":
        with Allocations() as allocations:
            yield measured
        measured.peak, measured.left = allocations.peak, allocations.left
        return
    module = torch.get_device_module(device)
    module.synchronize(device)
    before = _asked_for(module.memory_stats(device), "current")
    module.reset_peak_memory_stats(device)
    yield measured
    module.synchronize(device)
    after = module.memory_stats(device)
    measured.peak = _asked_for(after, "peak") - before
    measured.left = _asked_for(after, "current") - before


def _asked_for(statistics: dict[str, int], when: str) -> int:
    """Bytes that PyTorch's caching allocator was asked for. What lies unused behind a tensor, in a block that
    was not worth splitting, is left out if the allocator tells; CUDA's own (``cudaMallocAsync``) does not.
    """
    kept = statistics.get(f"allocated_bytes.all.{when}", 0)
    return statistics.get(f"requested_bytes.all.{when}", 0) or kept


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
    """Peak bytes of a step without the gradients of parameters, as scope ``activations`` counts them.

    Each allocation that becomes a gradient is left out from its beginning.

    Args:
        step: One step, forward and backward. The parameters have no gradients when it begins.
        model: The model that it trains.

    Returns:
        Bytes above what is allocated before the step.
    """
    trained = [one for one in model.parameters() if one.requires_grad]
    gc.collect()
    model.zero_grad(set_to_none=True)
    with addresses(device_of(model)) as seen:
        step()
    return seen.peak(one.grad for one in trained if one.grad is not None)


def addresses(device: torch.device) -> Addresses:
    """Listens to the allocator of a device.

    Args:
        device: The device.

    Returns:
        A context, which has what it heard when it ends.
    """
    return Addresses() if device.type == "cpu" else DeviceAddresses(device)


class Addresses:
    """What PyTorch's CPU allocator hands out and takes back while this context lasts, with addresses. They
    are read from the events of PyTorch's profiler, which takes some time to start.
    """

    changes: list[tuple[int, int]]
    """Address and bytes of every change, in order; what is given back is negative."""

    def __enter__(self) -> Addresses:
        """Starts listening."""
        # Kineto looks for GPUs and reports on standard error that there are none.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        cpu = torch.profiler.ProfilerActivity.CPU
        self._profile = torch.profiler.profile(activities=[cpu], profile_memory=True, acc_events=True)
        self._profile.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        """Stops; ``changes`` are address and bytes of every change in order."""
        from torch._C._profiler import _EventType

        self._profile.__exit__(*failure)
        waiting = list(self._profile.profiler.kineto_results.experimental_event_tree())
        changes = []
        while waiting:
            event = waiting.pop()
            waiting.extend(event.children)
            if event.tag == _EventType.Allocation and event.extra_fields.device.type == "cpu":
                about = event.extra_fields
                changes.append((event.start_time_ns, about.ptr, about.alloc_size))
        del self._profile
        self.changes = [(address, size) for _, address, size in sorted(changes, key=lambda one: one[0])]

    def peak(self, without: Iterable[torch.Tensor]) -> int:
        """The most bytes at once.

        Args:
            without: Tensors that are still there, and that do not count.

        Returns:
            Bytes above what was allocated when the context began.
        """
        newest = {address: place for place, (address, size) in enumerate(self.changes) if size > 0}
        left_out = {newest.get(one.untyped_storage().data_ptr()) for one in without}
        live = most = 0
        for place, (_, size) in enumerate(self.changes):
            if place not in left_out:
                live += size
                most = max(most, live)
        return most


class DeviceAddresses(Addresses):
    """The same of a GPU, from the history that PyTorch's caching allocator writes when it is asked to. A
    block counts with what was requested, rounded up to the allocator's unit: what lies unused behind it, in
    a block that was not worth splitting, is the allocator's.
    """

    def __init__(self, device: torch.device) -> None:
        """Listens to a GPU.

        Args:
            device: The GPU.

        Raises:
            RuntimeError: Somebody else is recording: there is one history.
        """
        if torch._C._cuda_isHistoryEnabled():
            raise RuntimeError("the history of the allocator is being recorded already")
        self._device = device

    def __enter__(self) -> DeviceAddresses:
        """Starts recording."""
        torch.cuda.synchronize(self._device)
        torch.cuda.memory._record_memory_history("all", context=None, stacks="python", clear_history=True)
        return self

    def __exit__(self, *failure: Any) -> None:
        """Stops; ``changes`` are address and bytes of every change in order."""
        torch.cuda.synchronize(self._device)
        index = self._device.index
        index = torch.cuda.current_device() if index is None else index
        trace = torch.cuda.memory._snapshot()["device_traces"][index]
        torch.cuda.memory._record_memory_history(None)
        self.changes = changes_in(trace)


def changes_in(trace: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """Address and bytes of every change that a history of the caching allocator tells of."""
    signs = {"alloc": 1, "free_completed": -1}
    return [
        (event["addr"], signs[event["action"]] * (-(-event["size"] // 512) * 512))
        for event in trace
        if event["action"] in signs
    ]


def seconds(step: Callable[[], Any], device: torch.device, repeats: int = 3) -> float:
    """The median duration of a step.

    Args:
        step: One step.
        device: The device that is waited for.
        repeats: How often the step is run.

    Returns:
        Seconds.
    """
    wait = (lambda: None) if device.type == "cpu" else torch.get_device_module(device).synchronize
    durations = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        step()
        wait()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)
