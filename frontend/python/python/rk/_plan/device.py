"""What is known of a device: its alignment, the memory that it has left."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from rk import _rk
from rk._plan import living
from rk.errors import CompileError, OptionError

SUPPORTED = ("cpu", "cuda")
STATED = "RK_CPU_MEMORY"
"""The environment variable that says how much memory there is on the CPU."""
PLAIN = (torch.Tensor, nn.Parameter)
"""Tensors that have a storage of their own."""


def of(tensors: Iterable[torch.Tensor]) -> torch.device:
    """The device of a step: the one that is no CPU, if there is one. CompileError for several, or an
    unknown one.
    """
    devices = {tensor.device for tensor in tensors}
    others = sorted({device for device in devices if device.type != "cpu"}, key=str)
    if len(others) > 1:
        raise CompileError(f"rk plans one device, and the step is on {', '.join(map(str, others))}")
    device = others[0] if others else torch.device("cpu")
    if device.type not in SUPPORTED:
        raise CompileError(
            f"rk does not know the memory of device '{device}'; it supports {' and '.join(SUPPORTED)}"
        )
    return device


def alignment(device: torch.device) -> int:
    """To how many bytes PyTorch's allocator rounds up."""
    return 512 if device.type == "cuda" else 64


def bytes_left(device: torch.device) -> int:
    """What can still be allocated now, in bytes."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if (stated := stated_capacity(device)) is not None:
        return max(stated - sum({one._cdata: one.nbytes() for one in storages()}.values()), 0)
    return host_bytes_left()


def host_bytes_left() -> int:
    """What the machine's memory has left for this process, in bytes."""
    left = [_meminfo("MemAvailable")]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        left.append(int(text) - int(used.read_text()))
    return max(min(left), 0)


def storages() -> list[torch.UntypedStorage]:
    """Those of the tensors on the CPU that Python knows, and of their gradients, which it may not have seen
    yet. Wrappers of ``torch.func``'s have none.
    """
    known = [one for one in living.objects(PLAIN) if type(one) in PLAIN and torch._C._has_storage(one)]
    gradients = [one.grad for one in known if one.is_leaf and one.grad is not None]
    found = [*known, *(one for one in gradients if torch._C._has_storage(one))]
    return [
        one.untyped_storage() for one in found if one.device.type == "cpu" and one.layout is torch.strided
    ]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this process has: of a DTensor, its shard."""
    return getattr(tensor, "_local_tensor", tensor)


def capacity(device: torch.device, taken: int) -> int:
    """What this process can have at most, in bytes, of which it has ``taken``."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    stated = stated_capacity(device)
    return bytes_left(device) + taken if stated is None else stated


def stated_capacity(device: torch.device) -> int | None:
    """What the environment says that there is on the CPU; None if it says nothing."""
    text = os.environ.get(STATED)
    if text is None or device.type != "cpu":
        return None
    try:
        return _rk.budget_bytes(text)
    except ValueError as error:
        raise OptionError(f"{STATED}={text!r} is no number of bytes, such as 16GiB") from error


def rounded(left: int, steps: int = 16) -> int:
    """Rounded down to one of so many steps between powers of two, so that a plan on disk can be found."""
    return max(left, 0) >> (shift := max(left.bit_length() - steps.bit_length(), 0)) << shift


def _meminfo(field: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise CompileError(f"/proc/meminfo has no {field}")
