"""The parameters of this process, and which bytes of the allocator are their gradients.

A gradient of a parameter is not an activation. With several processes there is more to tell apart:

* *Buckets.* With ``gradient_as_bucket_view`` DDP lets gradients be views of its buckets, which stand from
  before the step until after it; they come and go as ``.grad``, and no memory does.
* *Shards.* FSDP2's parameters are DTensors, and the gradients of a layer lie in one storage.
* *Gathered parameters.* What FSDP2 gathers for a layer, and the gradients of that, come and go within the
  step. They count like an activation.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from rk._plan import living

_FSDP = "torch.distributed.fsdp._fully_shard"


class Parameters:
    """Those on one device, as they are when :meth:`find` is called."""

    def __init__(self, device: torch.device) -> None:
        """Nothing has been found yet."""
        self._device = device
        self._own: list[tuple[weakref.ref[nn.Parameter], Any]] = []
        """With the DDP that keeps its gradient in a bucket, if there is one."""
        self._sharded: list[weakref.ref[Any]] = []
        self.gathered_bytes = 0
        """Bytes of the parameters that are gathered, and of what they have been gathered in."""
        self._before: set[int] = set()
        """The storages of DDP's gradients that were there when a step began."""

    def find(self) -> None:
        """Looks through the objects of this process."""
        fsdp = _loaded(f"{_FSDP}._fsdp_param", "FSDPParam")
        buffers = _loaded(f"{_FSDP}._fsdp_collectives", "AllGatherResult")
        wanted = (torch.Tensor, nn.parallel.DistributedDataParallel, *fsdp, *buffers)
        found = living.objects(wanted)
        self._sharded = [weakref.ref(one) for one in found if isinstance(one, fsdp)]
        gathered = list(self._gathered())
        flat = [one.all_gather_output for one in found if isinstance(one, buffers)]
        self.gathered_bytes = _bytes([*gathered, *flat])
        buckets = {
            id(one): weakref.ref(ddp)
            for ddp in found
            if isinstance(ddp, nn.parallel.DistributedDataParallel) and ddp.gradient_as_bucket_view
            for one in ddp.parameters()
        }
        # A parameter that is a DTensor is no subclass of Parameter.
        mine = [one for one in found if isinstance(one, torch.Tensor) and isinstance(one, nn.Parameter)]
        # What Dynamo and AOTAutograd trace with has no memory, and sizes that may be symbols.
        mine = [one for one in mine if not isinstance(local(one), (FakeTensor, FunctionalTensor))]
        here = [one for one in mine if one.device.type == self._device.type]
        passing = {id(one) for one in gathered}
        self._own = [(weakref.ref(one), buckets.get(id(one))) for one in here if id(one) not in passing]
        self._before = {one.untyped_storage()._cdata for one, ddp in self._gradients() if ddp is not None}

    def gradient_bytes(self) -> int:
        """Bytes of the gradients that come in a step, and stay until the caller lets go of them."""
        return _bytes(one for one, ddp in self._gradients() if ddp is None or not self._is_bucket(one, ddp))

    def _gradients(self) -> Iterator[tuple[torch.Tensor, Any]]:
        for reference, ddp in self._own:
            parameter = reference()
            if parameter is not None and parameter.grad is not None:
                yield parameter.grad, None if ddp is None else ddp()

    def _is_bucket(self, gradient: torch.Tensor, ddp: Any) -> bool:
        """Whether a gradient has come as a view of a bucket, which was there before."""
        storage = gradient.untyped_storage()
        if storage._cdata in self._before:
            return False
        if storage.nbytes() > gradient.nbytes:
            return True
        # A bucket of one gradient looks like the gradient. Until a static graph is known, gradients are
        # copied when the step is over.
        is_late = ddp.static_graph and not ddp._has_rebuilt_buckets
        return ddp.require_backward_grad_sync and not is_late

    def is_gathered(self, parameter: torch.Tensor) -> bool:
        """Whether it is there for a part of the step only, and so is its gradient."""
        return any(parameter is one or parameter is local(one) for one in self._gathered())

    def _gathered(self) -> Iterator[torch.Tensor]:
        for reference in self._sharded:
            whole = getattr(reference(), "_unsharded_param", None)
            if whole is not None:
                yield whole


def may_be_gathered() -> bool:
    """Whether FSDP2 is used in this process."""
    return bool(_loaded(f"{_FSDP}._fsdp_param", "FSDPParam"))


def trained(tensors: Iterable[Any], device: torch.device) -> list[nn.Parameter]:
    """The parameters among these that are on a device and will have gradients."""
    given = [one for one in tensors if isinstance(one, nn.Parameter) and one.requires_grad]
    # What Dynamo compiles with may be no tensor that anybody trains.
    return [one for one in given if one.device.type == device.type and not isinstance(one, FakeTensor)]


def _loaded(module: str, name: str) -> tuple[type, ...]:
    """A class of what few programs use, if it is there."""
    found = getattr(sys.modules.get(module), name, None)
    return () if found is None else (found,)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this process has."""
    return getattr(tensor, "_local_tensor", tensor)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    storages = (local(one).untyped_storage() for one in tensors)
    return sum({one._cdata: one.nbytes() for one in storages}.values())
