"""Values that wait in host memory: the copies of a plan, and who waits for them.

A copy has the bytes of a whole storage. On a GPU it runs on a stream of its own, one for each direction,
which serves its copies in order (docs/design/offload.md); the stream of the step waits for it where the plan
says so. Until then both of its ends are kept alive, whatever becomes of the step. On a CPU the host's memory
is a mapping beside PyTorch's allocator, and copies do not overlap with operators.
"""

from __future__ import annotations

import dataclasses
import functools
import mmap
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rk.errors import ExecutionError

_LOCK = threading.RLock()


@dataclasses.dataclass
class HostMemory:
    """Bytes that wait there, counted where they are allocated and freed."""

    now: int = 0
    peak: int = 0

    def take(self, storage: torch.UntypedStorage) -> None:
        """Counts a storage for as long as it lives."""
        size = storage.nbytes()
        with _LOCK:
            self.now += size
            self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._give_back, size).atexit = False

    def _give_back(self, size: int) -> None:
        with _LOCK:
            self.now -= size


HOST = HostMemory()
"""The host's memory that all steps of this process use."""


class Engine:
    """The copies of one direction of a device, in order."""

    def __init__(self, device: torch.device) -> None:
        """``device`` is the one that the step is on."""
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._underway: dict[int, tuple[Any, tuple[torch.Tensor, ...]]] = {}
        """By the storage that a copy fills: the event of its end, and both of its ends."""
        self.begin: Callable[[Callable[[], None]], Callable[[], None] | None] = at_once
        """On a CPU, when a copy happens: it gets the copy, and gives what is left to do at the wait."""

    def start(self, into: torch.Tensor, source: torch.Tensor) -> None:
        """Hands a copy to the engine."""
        copy = functools.partial(into.copy_, source, non_blocking=True)
        with _LOCK:
            if self._stream is None:
                done: Any = self.begin(copy)
                if done is None:
                    # It has ended, and nobody need wait for it: a step that is given up would leave it here.
                    return
            else:
                self._let_go()
                self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
                with torch.cuda.stream(self._stream):
                    copy()
                done = self._stream.record_event()
            self._underway[_place(into)] = done, (into, source)

    def wait(self, into: torch.Tensor) -> None:
        """The step does not go on before this copy has ended."""
        with _LOCK:
            done, _ = self._underway.pop(_place(into), (None, ()))
            if done is None:
                return
            if self._stream is None:
                done()
            else:
                torch.cuda.current_stream(self._stream.device).wait_event(done)

    def _let_go(self) -> None:
        """Forgets the copies that have ended: of steps that were given up, nobody waits for them."""
        ended = [place for place, (done, _) in self._underway.items() if done.query()]
        for place in ended:
            del self._underway[place]


def at_once(copy: Callable[[], None]) -> None:
    """The copy happens when it begins."""
    copy()


@functools.cache
def engines(device: torch.device) -> tuple[Engine, Engine]:
    """From a device to the host, and back."""
    return Engine(device), Engine(device)


def offload(value: torch.Tensor) -> torch.Tensor:
    """Begins to copy a value to the host.

    Args:
        value: What is on the device.

    Returns:
        The bytes of its storage, in host memory, complete after :func:`host_wait`.

    Raises:
        ExecutionError: Its bytes are not its numbers (a lazy conjugate or negative).
    """
    if value.is_conj() or value.is_neg():
        raise ExecutionError("a value that is a lazy conjugate or negative cannot wait in host memory")
    source = _whole(value.untyped_storage())
    host = host_memory(source)
    HOST.take(host.untyped_storage())
    engines(value.device)[0].start(host, source)
    return host


def host_wait(host: torch.Tensor, value: torch.Tensor) -> None:
    """Waits until the copy is complete; nothing reads ``value`` on the device from here on."""
    engines(value.device)[0].wait(host)


def fetch(
    host: torch.Tensor,
    device: torch.device,
    dtype: torch.dtype,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> torch.Tensor:
    """Begins to copy a value back to the device.

    Args:
        host: What :func:`offload` returned.
        device: Where the value was.
        dtype: Of its elements.
        size: Elements per dimension.
        stride: Elements between neighbours, per dimension.
        offset: Elements before the first one in its storage.

    Returns:
        The value, complete after :func:`wait`.
    """
    whole = torch.empty(host.numel(), dtype=torch.uint8, device=device)
    engines(whole.device)[1].start(whole, host)
    return torch.empty(0, dtype=dtype, device=device).set_(whole.untyped_storage(), offset, size, stride)


def wait(value: torch.Tensor) -> None:
    """Waits until a value is back."""
    engines(value.device)[1].wait(value)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _whole(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def host_memory(source: torch.Tensor) -> torch.Tensor:
    """Bytes in host memory, as many as ``source`` has. For a GPU they are pinned."""
    size = source.numel()
    if source.device.type == "cuda":
        host = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
    elif size == 0:
        host = torch.empty(0, dtype=torch.uint8, device="cpu")
    else:
        host = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
    return host
