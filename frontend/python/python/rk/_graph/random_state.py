"""Running a random operator a second time with the generator state of its first run.

The generator is put back afterwards, so what follows draws what it would have drawn without the second run
(law S4).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

Remembered = dict[str, torch.Generator]
"""By random operator, a copy of the generator as it was when that ran. It takes no memory of PyTorch's."""


class _Here(threading.local):
    remembered: Remembered | None = None


_here = _Here()


@contextlib.contextmanager
def remembered() -> Iterator[Remembered]:
    """What :func:`remember` is called with, while this context lasts."""
    before, _here.remembered = _here.remembered, {}
    try:
        yield _here.remembered
    finally:
        _here.remembered = before


def remember(device: torch.device, name: str) -> None:
    """A random operator runs next: for whoever wants to run it again one day, which no plan does."""
    known = _here.remembered
    if known is not None:
        known[name] = _generator(device).clone_state()


def _generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.random.default_generator
    module = torch.get_device_module(device)
    return module.default_generators[module.current_device() if device.index is None else device.index]


def save(device: torch.device) -> torch.Tensor:
    """The state of the default generator of a device, as the next random operator will find it."""
    if device.type == "cpu":
        return torch.random.default_generator.get_state()
    return torch.get_device_module(device).get_rng_state(device)


def replay(
    state: torch.Tensor, device: torch.device, operator: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Runs an operator, which may take a ``device``, from a saved state; the generator is left as it was."""
    now = _apart(save(device))
    restore(state, device)
    try:
        return operator(*args, **kwargs)
    finally:
        restore(now, device)


def _apart(state: torch.Tensor) -> torch.Tensor:
    """The state in Python's memory: while the operator runs, a plan has no room for one more value."""
    return torch.frombuffer(bytearray(state.numpy()), dtype=torch.uint8)


def restore(state: torch.Tensor, device: torch.device) -> None:
    """Puts the default generator of a device into a saved state."""
    if device.type == "cpu":
        torch.random.default_generator.set_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)
