"""What was made outside of a budget and is read by calls that may run again: that it is still what it was.

Inside of the context every write is seen, and the old value is copied for those who have read it
(``dispatch``). Outside of it only PyTorch's version counters see one, and a write through ``.data`` is
seen by nobody. So when the context is left, what calls may read again is looked through: small tensors are
copied, and the copies count; of large ones a digest is made, and compared before they are read again.

Most often nothing is left to do then, because forward and backward have both run inside.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from rk._rk import OnlineRuntime

__all__ = ["Outside"]

# Copies take at most this part of the budget.
_SMALL = 32
_LANES = 64


class Outside:
    """The tensors made outside that calls of one budget have read."""

    def __init__(self, core: OnlineRuntime) -> None:
        """None so far."""
        self._core = core
        self._read: dict[int, weakref.ref[Tensor]] = {}
        self.digests: dict[int, list[tuple[Tensor, int]]] = {}
        """By storage, what its bytes were when the context was left, and which time that was; again where
        they had changed.
        """
        self.entered = 0
        """How often the context is entered now."""
        self.left = 0
        """How often it has been left: the calls before that are those that a digest of that time is for."""

    def enter(self) -> None:
        """The context is entered."""
        self.entered += 1
        self._forget_unread()

    def _forget_unread(self) -> None:
        self.digests = {key: one for key, one in self.digests.items() if self._core.constant_is_read(key)}

    def reads(self, storage: int, tensor: Tensor) -> None:
        """A call reads a tensor in this storage."""
        known = self._read.get(storage)
        if known is None or known() is None:
            self._read[storage] = weakref.ref(tensor)

    def leave(self, budget: int) -> None:
        """The context is left."""
        room = budget // _SMALL
        self.left += 1
        self._forget_unread()
        for key, reference in self._read.items():
            tensor = reference()
            if tensor is None or not self._core.constant_is_read(key):
                continue
            with _disable_current_modes(), torch.no_grad():
                bytes = flat_storage(tensor)
                known = self.digests.get(key, [])
                if known:
                    digest = _digest(bytes)
                    same = torch.equal(known[-1][0], digest)
                    known[-1:] = [(digest, self.left)] if same else [known[-1], (digest, self.left)]
                elif bytes.numel() <= room:
                    room -= bytes.numel()
                    self._core.replace_constant(key, bytes.clone(), bytes.numel())
                else:
                    self.digests[key] = [(_digest(bytes), self.left)]
        self._read.clear()

    def check(self, what: Any, tensor: Tensor, since: int = 0) -> None:
        """Before a call reads a tensor again, or it is written to. ``since``: how often the context had been
        left when the call read it first.

        Raises RuntimeError if its bytes are others than when the context was left after that.
        """
        key = tensor.untyped_storage()._cdata
        known = next((one for one, left in self.digests.get(key, ()) if since < left), None)
        if known is None:
            return
        with _disable_current_modes(), torch.no_grad():
            same = torch.equal(_digest(flat_storage(tensor)), known)
        if not same:
            raise modified(what, tensor)
        if self.entered and len(self.digests[key]) == 1:
            # From here on writes are seen.
            del self.digests[key]


def modified(what: Any, tensor: Tensor) -> RuntimeError:
    """What is raised when an argument is not what it was."""
    return RuntimeError(
        f"{what}: an argument of shape {tuple(tensor.shape)} was modified in place outside of the memory "
        "budget after it was used, so what came of it cannot be computed again; modify it inside, or drop "
        "what was computed from it first"
    )


def flat_storage(tensor: Tensor) -> Tensor:
    """The bytes of a tensor's whole storage."""
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


def _digest(bytes: Tensor) -> Tensor:
    """Sums of a storage's words by their places modulo a number of lanes, and by blocks of them."""
    whole = bytes.numel() // (4 * _LANES) * 4 * _LANES
    words = bytes[:whole].view(torch.int32).view(_LANES, -1)
    columns = words.view(-1, _LANES).sum(0)
    return torch.cat([columns, words.sum(1), bytes[whole:].long()])
