"""The link between a device and host memory: what copies take, measured once per device and kept on disk.

With the cost model ``roofline`` it is that of a middling machine, and nothing is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch

from rk._graph import made_up, transfers
from rk._plan import cache
from rk._plan import device as devices
from rk._plan.options import Options
from rk.errors import BudgetError

BYTES = 32 << 20
"""Of the copies that are timed for the bandwidth."""
ROUNDS = 5
MODEL = {"bandwidth": "12GB/s", "latency": "10us"}
"""PCIe 3.0 with 16 lanes."""


def of(options: Options, device: torch.device, measures: bool) -> dict[str, str]:
    """How the planner is told of it; empty without ``offload``."""
    if options.offload is None:
        return {}
    known = measured(options, device) if measures and options.cost_model == "measured" else MODEL
    told = dict(known)
    if options.offload != "any":
        told["host_budget"] = options.offload
    if options.bandwidth is not None:
        told["bandwidth"] = options.bandwidth
    return told


def measured(options: Options, device: torch.device) -> dict[str, str]:
    """Bandwidth and latency of the slower direction."""
    folder, name = options.cache_folder(), f"link-{cache.key_of(_name(device), torch.__version__)}"
    known = cache.read(folder, name)
    if known is None:
        with made_up.alone(device):
            small, large = (max(_seconds(device, size)) for size in (1, BYTES))
        rate = max(int(BYTES / max(large - small, 1e-9)), 1)
        known = {"bandwidth": f"{rate}B/s", "latency": f"{math.ceil(small * 1e9)}ns"}
        cache.write(folder, name, known)
    return known


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _seconds(device: torch.device, size: int) -> tuple[float, float]:
    """What copies of so many bytes take to the host and back: the fastest of some."""
    value = torch.zeros(size, dtype=torch.uint8, device=device)
    host = transfers.host_memory(value)
    return _fastest(device, lambda: host.copy_(value)), _fastest(device, lambda: value.copy_(host))


def _fastest(device: torch.device, copy: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        copy()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def check_host(peak: int | None) -> None:
    """Raises BudgetError where host memory has less left than a plan needs."""
    if peak is None:
        return
    left = devices.host_bytes_left()
    if peak > left:
        error = BudgetError(
            f"a plan whose values wait in {peak} bytes of host memory, of which {left} are left; say how "
            "many may be taken (offload='8GiB'), or stop what else takes them"
        )
        error.budget_bytes, error.smallest_bytes, error.lower_bound_bytes = left, peak, 0
        error.holder = "host memory"
        raise error
