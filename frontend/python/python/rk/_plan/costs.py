"""What each call of a step takes: time and workspace, measured once per distinct call and kept on disk.

A call is run by itself on made-up tensors of its sizes and strides. With the cost model ``roofline``
(:mod:`rk._plan.roofline`) its time is that of the model, which no load of the machine changes. Workspace is
what PyTorch's allocator hands out during the call beyond the results: on the CPU it is read from the memory
events of PyTorch's legacy profiler (the current one would start Kineto, and look for GPUs), on other devices
from the allocator's statistics. Neither needs code of ours inside of PyTorch.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import fx

from rk._graph import joint, made_up, settings, spelling
from rk._graph.graph_text import Call, Cost
from rk._graph.repetition import is_unknown
from rk._plan import cache, roofline

log = logging.getLogger(__name__)
QUICK = 2e-3
"""Seconds. A call below this is run a few times, because one timing of it says little."""
REPEATS = 3
SAMPLE, MOST_CALLS = 1e-4, 32
"""Seconds that a sample of calls on a GPU should take: events are half a microsecond apart at least."""
STALL, MOST_STALL = 1e-4, 1e-2
"""Seconds for which a GPU is kept busy while calls are queued, at first and at most."""


def versions(device: torch.device, model: str = "measured") -> str:
    """What a cost depends on besides the call; ``model`` is ``cost_model`` of the options."""
    threads = f"{torch.get_num_threads()} threads"
    times = "" if model == "measured" else f"; {model}"
    return f"torch {torch.__version__}; {device.type}; {threads}; {settings.text(device)}; held{times}"


def of(
    calls: Iterable[Call], device: torch.device, folder: Path, *, model: str = "measured", arena: bool = False
) -> dict[str, Cost]:
    """The cost of every call by its signature. Views cost nothing and are left out. ``model`` is the
    ``cost_model`` of the options, and says where times come from; workspaces are measured. ``arena``: they
    are what temporaries need at fixed addresses, packed as rk's runtime packs them, not what they add up to.
    """
    name = f"costs-{cache.key_of(versions(device, model), *(['arena'] if arena else []))}"
    read = (cache.read(folder, name) or {}).items()
    known = {signature: Cost(ns, workspace, tuple(held)) for signature, (ns, workspace, held) in read}
    calls = [call for call in calls if not call.is_view and call.signature not in known]
    # What runs once does not run here: nobody knows what else it does. Its cost may be known later.
    unknown = {call.signature: call for call in calls if call.node and is_unknown(call.node)}
    wanted = {call.signature: call for call in calls if call.signature not in unknown}
    if wanted:
        start = time.perf_counter()
        known.update(_all_measured(list(wanted.values()), device, model == "measured", arena))
        log.info("rk: measured %d calls in %.2f s", len(wanted), time.perf_counter() - start)
        # Another process may have measured meanwhile; what both know is equally good.
        stored = {**(cache.read(folder, name) or {})}
        stored.update({signature: dataclasses.astuple(cost) for signature, cost in known.items()})
        cache.write(folder, name, stored)
    return known | {signature: _guessed(call.node, device) for signature, call in unknown.items()}


def _all_measured(
    calls: list[Call], device: torch.device, timed: bool, arena: bool
) -> list[tuple[str, Cost]]:
    if not torch.autograd._profiler_enabled():
        return list(_measured(calls, device, timed, arena))
    # The user is profiling on this thread, and a thread has one profiler.
    threads = torch.get_num_threads()

    def elsewhere() -> list[tuple[str, Cost]]:
        torch.set_num_threads(threads)
        return list(_measured(calls, device, timed, arena))

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(elsewhere).result()


def _measured(
    calls: list[Call], device: torch.device, timed: bool, arena: bool
) -> Iterator[tuple[str, Cost]]:
    with made_up.alone(device):
        for call in calls:
            if call.node is None:
                yield call.signature, Cost(0, 0)
                continue
            if spelling.operator(call.node.target).is_effect:
                # A collective would wait for the other processes, an assertion would fail.
                yield call.signature, dataclasses.replace(_guessed(call.node, device), workspace=0)
                continue
            try:
                yield call.signature, _measure(call.node, device, call.gradients, timed, arena)
            except Exception as error:  # noqa: BLE001 - any operator may refuse made-up values
                log.info("rk: %s cannot be measured: %s", call.node.target, error)
                yield call.signature, _guessed(call.node, device)


def settle(device: torch.device) -> None:
    """Lets libraries take what they keep: cuBLAS has a workspace for each thread that multiplies, 32 MiB on
    some GPUs, and a backward pass is on a thread of autograd's.
    """
    with made_up.alone(device), torch.enable_grad():
        one = torch.ones(8, 8, device=device, requires_grad=True)
        torch.autograd.grad((one @ one).sum(), one)


def _measure(
    node: fx.Node, device: torch.device, gradients: tuple[int, ...], timed: bool, arena: bool
) -> Cost:
    args, kwargs = made_up.arguments(node)
    held: tuple[int, ...] = ()
    if arena:
        planned = [None if one is None else one.untyped_storage().nbytes() for one in joint.results_of(node)]
        first, workspace = _packed(node.target, args, kwargs, gradients, planned)
    else:
        fakes = joint.results_of(node)
        leaving = (fakes[place] for place in gradients)
        uncounted = [one.untyped_storage().nbytes() for one in leaving if one is not None]
        first, workspace, held = _run(node.target, args, kwargs, device, uncounted)
        if all(
            fake is None or size <= fake.untyped_storage().nbytes()
            for fake, size in zip(fakes, held, strict=True)
        ):
            held = ()
    if not timed:
        return Cost(roofline.nanoseconds(node, device), workspace, held)
    best = first
    if device.type != "cpu":
        best = _timed_by_events(node.target, args, kwargs, device)
    elif first < QUICK:
        for _ in range(REPEATS):
            best = min(best, _timed(node.target, args, kwargs))
    return Cost(max(int(best * 1e9), 1), workspace, held)


def _timed(target: Any, args: Any, kwargs: Any) -> float:
    start = time.perf_counter()
    result = target(*args, **kwargs)
    seconds = time.perf_counter() - start
    del result
    return seconds


def _timed_by_events(target: Any, args: Any, kwargs: Any, device: torch.device) -> float:
    """Seconds of one call between two events on the device's current stream. Short calls are queued one
    behind the other while the stream is kept busy, so that it does not wait for Python between them. As
    ``codegen/torch/cc/timer.h`` does it for ``rk-import``.
    """
    stall = STALL

    def sample(calls: int) -> float:
        nonlocal stall
        while True:
            start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
            # In cycles; no GPU so far has had more than two in a nanosecond.
            torch.get_device_module(device)._sleep(int(2e9 * stall))
            start.record()
            for _ in range(calls):
                target(*args, **kwargs)
            end.record()
            # Otherwise the device was waiting for calls.
            ahead = not start.query()
            end.synchronize()
            if ahead or stall >= MOST_STALL:
                return start.elapsed_time(end) * 1e-3 / calls
            stall *= 2

    with torch.get_device_module(device).device(device):
        sample(1)
        calls = min(max(int(SAMPLE / max(sample(1), 1e-9)), 1), MOST_CALLS)
        return min(sample(calls) for _ in range(REPEATS))


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)


def _packed(
    target: Any, args: Any, kwargs: Any, leaving: tuple[int, ...], planned: list[int | None]
) -> tuple[float, int]:
    """Seconds of one call on the CPU, and the bytes that its temporaries need in an arena. The results at the
    places ``leaving`` have none in it, and what is not as long as ``planned`` is a temporary that the result
    is cut out of.
    """
    from torch._C._aoti import unsafe_alloc_void_ptrs_from_tensors as handles_of

    from rk._rk_runtime import Watch

    watch = Watch()
    start = time.perf_counter()
    result = target(*args, **kwargs)
    seconds = time.perf_counter() - start
    kept: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for place, one in enumerate(joint.flat(result)):
        if isinstance(one, torch.Tensor) and one.untyped_storage().nbytes() == planned[place]:
            kept[place in leaving].append(one)
    return seconds, watch.workspace(*(handles_of(some) for some in kept))


def _run(
    target: Any, args: Any, kwargs: Any, device: torch.device, uncounted: list[int]
) -> tuple[float, int, tuple[int, ...]]:
    """Seconds of one call, the most bytes in use during it beyond what its results take, and the bytes that
    these hold: a kernel may leave the memory of more than it returns behind a result. ``uncounted`` are the
    bytes of results that the plan does not count: what stands in for one before it is there, such as a
    convolution's gradient in another layout, is workspace.
    """
    if device.type != "cpu":
        module = torch.get_device_module(device)
        before = module.memory_allocated(device)
        module.reset_peak_memory_stats(device)
        start = time.perf_counter()
        result = target(*args, **kwargs)
        _wait(device)
        seconds = time.perf_counter() - start
        workspace = module.max_memory_allocated(device) - max(module.memory_allocated(device), before)
        return seconds, max(workspace, 0), _held(result)
    with Allocations() as allocations:
        start = time.perf_counter()
        result = target(*args, **kwargs)
        seconds = time.perf_counter() - start
    return seconds, allocations.workspace(uncounted), _held(result)


def _held(result: Any) -> tuple[int, ...]:
    """The bytes of the storages of results; 0 for what has none."""
    return tuple(
        one.untyped_storage().nbytes() if isinstance(one, torch.Tensor) and one.layout is torch.strided else 0
        for one in joint.flat(result)
    )


class Allocations:
    """What PyTorch's CPU allocator hands out and takes back on this thread, while this context lasts."""

    def __enter__(self) -> Allocations:
        """Starts listening."""
        from torch._C._profiler import _ExperimentalConfig
        from torch.autograd import ProfilerConfig, ProfilerState

        config = ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig())
        torch._C._autograd._enable_profiler_legacy(config)
        return self

    def __exit__(self, *_: object) -> None:
        """Stops; ``changes`` holds the bytes of every change in order, ``peak`` and ``left`` their sums."""
        threads = torch._C._autograd._disable_profiler_legacy()
        self.changes = [
            e.cpu_memory_usage() for thread in threads for e in thread if e.kind() == "memory_alloc"
        ]
        self.peak = self.left = 0
        for change in self.changes:
            self.left += change
            self.peak = max(self.peak, self.left)

    def workspace(self, uncounted: Iterable[int]) -> int:
        """The most bytes beyond those that are left, when allocations of these sizes, the last ones of each,
        do not count.
        """
        changes = list(self.changes)
        for size in uncounted:
            for place in reversed(range(len(changes))):
                if changes[place] == size:
                    changes[place] = 0
                    break
        live = most = 0
        for change in changes:
            live += change
            most = max(most, live)
        return max(most - max(live, 0), 0)


def _guessed(node: fx.Node, device: torch.device) -> Cost:
    """Of a call that cannot be measured: as much workspace as everything that it touches."""
    return Cost(roofline.nanoseconds(node, device), roofline.moved(node))
