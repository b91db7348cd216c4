"""What operators make under a budget and cannot be managed: it is ordinary, and its bytes count as long as it
lives.

Nested, sparse, quantized and MKL-DNN tensors, tensors of other classes. They are never evicted, so the budget
has to hold for them beside what is; if it does not, the error names them. Tensors on the device "meta", fake
ones, and the zeros of forward-mode differentiation, which PyTorch reads nowhere, have no bytes.

Not here: where they come from (``dispatch``).
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from rk._online.managed import Managed
from rk._rk import OnlineRuntime

__all__ = ["Unmanaged", "kind_of"]

# For the core's table of sizes: no operator has this key.
_KEY = -2


def kind_of(tensor: Tensor) -> str | None:
    """Why a tensor is not managed; None for one that may be."""
    if tensor.is_nested:
        return "nested"
    kind = type(tensor)
    if kind is not Tensor and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return "subclass"
    if tensor.layout is not torch.strided:
        return "mkldnn" if tensor.is_mkldnn else "sparse"
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_meta:
        return "meta"
    return "zero" if torch._is_zerotensor(tensor) else None


def storages_of(tensor: Tensor) -> dict[int, int]:
    """The bytes of a tensor's storages by their addresses."""
    if type(tensor) is Managed or isinstance(tensor, torch._subclasses.FakeTensor):
        return {}
    if tensor.is_meta or torch._is_zerotensor(tensor):
        return {}
    if type(tensor) is not Tensor and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return {k: v for name in names for k, v in storages_of(getattr(tensor, name)).items()}
    if tensor.layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.layout is torch.strided or tensor.is_nested:
        storage = tensor.untyped_storage()
        return {storage._cdata: storage.nbytes()}
    else:
        return {id(tensor): tensor.numel() * tensor.itemsize}
    return {k: v for part in parts for k, v in storages_of(part).items()}


def apart(tensor: Tensor, managed: Iterable[Tensor]) -> Tensor:
    """The tensor, or a copy if it shows the memory of a managed one, as a sparse tensor that of its values:
    what is written there moves elsewhere, now or when it is computed again.
    """
    mine = storages_of(tensor).keys()
    shares = any(not mine.isdisjoint(storages_of(other)) for other in managed)
    return tensor.clone() if shares else tensor


class _Note:
    """Stands where calls have their replays: what the core calls it in messages."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class Unmanaged:
    """What is not managed of one budget."""

    def __init__(self, core: OnlineRuntime) -> None:
        """Nothing so far."""
        self._core = core
        self._made: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._finalizers: dict[int, Any] = {}

    def add(self, tensor: Tensor, kind: str, maker: Any, known: Iterable[Tensor] = ()) -> None:
        """Counts a tensor as long as it lives. What it shares with tensors that are known counts with
        those.
        """
        self._made[kind] += 1
        others = {storage for other in known for storage in storages_of(other)}
        size = sum(bytes for storage, bytes in storages_of(tensor).items() if storage not in others)
        if size == 0:
            return
        note = _Note(f"{maker} ({kind}: not managed)")
        (handle,) = self._core.finish(_KEY, [], note, [None], [size], 0, [], False)
        self._core.settle(handle.id)
        self._bytes[kind] += size
        finalizer = weakref.finalize(tensor, self._gone, id(tensor), kind, size, handle)
        finalizer.atexit = False
        self._finalizers[id(tensor)] = finalizer

    def _gone(self, tensor: int, kind: str, size: int, handle: Any) -> None:
        self._finalizers.pop(tensor, None)
        self._bytes[kind] -= size
        del handle

    def forget(self, tensor: Tensor) -> None:
        """The tensor is the user's from now on."""
        finalizer = self._finalizers.get(id(tensor))
        if finalizer is not None:
            finalizer()

    def statistics(self) -> dict[str, int]:
        """How many were made, and how many bytes of them live, by kind."""
        found = {f"unmanaged_{kind}": count for kind, count in self._made.items()}
        found |= {f"unmanaged_{kind}_bytes": self._bytes[kind] for kind in self._made}
        return {**found, "unmanaged_bytes": self._bytes.total(), "unmanaged_tensors": self._made.total()}

    def reset(self) -> None:
        """Counts anew; what lives goes on to count."""
        self._made.clear()
