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
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.optim.optimizer import Optimizer

from rk._plan import living
from rk._plan.device import local
from rk._run.optimizer_states import OptimizerStates

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
        self.states = OptimizerStates(device)

    def find(self) -> None:
        """Looks through the objects of this process."""
        fsdp = _sharded()
        wanted = (torch.Tensor, Optimizer, nn.parallel.DistributedDataParallel, *fsdp, *_buffers())
        found = living.objects(wanted)
        self.states.find(one for one in found if isinstance(one, Optimizer))
        self._sharded = [weakref.ref(one) for one in found if isinstance(one, fsdp)]
        gathered = list(self._gathered())
        self.gathered_bytes = _bytes([*gathered, *_flat(found)])
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
        self._before = set(_storages(one for one, ddp in self._gradients() if ddp is not None))

    def gradient_storages(self) -> dict[int, torch.UntypedStorage]:
        """By address, where gradients are that come in a step, and stay until the caller lets go of them."""
        found = self._gradients()
        return _storages(one for one, ddp in found if ddp is None or not self._is_bucket(one, ddp))

    def _gradients(self) -> Iterator[tuple[torch.Tensor, Any]]:
        for reference, ddp in self._own:
            parameter = reference()
            if parameter is not None and parameter.grad is not None:
                yield parameter.grad, None if ddp is None else ddp()

    def _is_bucket(self, gradient: torch.Tensor, ddp: Any) -> bool:
        """Whether a gradient has come as a view of a bucket, which was there before; no sparse one has."""
        if gradient.layout is not torch.strided:
            return False
        storage = gradient.untyped_storage()
        if storage._cdata in self._before:
            return False
        if storage.nbytes() > gradient.nbytes:
            return True
        # A bucket of one gradient looks like the gradient.
        return come_in_buckets(ddp)

    def is_gathered(self, parameter: torch.Tensor) -> bool:
        """Whether it is there for a part of the step only, and so is its gradient."""
        return any(parameter is one or parameter is local(one) for one in self._gathered())

    def _gathered(self) -> Iterator[torch.Tensor]:
        return _whole(reference() for reference in self._sharded)


def gathered() -> list[torch.Tensor]:
    """The parameters that FSDP2 has gathered, and what they have been gathered in."""
    found = living.objects((*fsdp, *_buffers())) if (fsdp := _sharded()) else []
    return [*_whole(one for one in found if isinstance(one, fsdp)), *_flat(found)]


def _sharded() -> tuple[type, ...]:
    # Dynamo loads the module in any case, and no parameter is sharded where no process knows of another.
    if not (dist.is_available() and dist.is_initialized()):
        return ()
    return _loaded(f"{_FSDP}._fsdp_param", "FSDPParam")


def _buffers() -> tuple[type, ...]:
    return _loaded(f"{_FSDP}._fsdp_collectives", "AllGatherResult")


def _whole(sharded: Iterable[Any]) -> Iterator[torch.Tensor]:
    found = (getattr(one, "_unsharded_param", None) for one in sharded)
    return (one for one in found if one is not None)


def _flat(found: Iterable[Any]) -> list[torch.Tensor]:
    return [one.all_gather_output for one in found if isinstance(one, _buffers())]


def may_be_gathered() -> bool:
    """Whether FSDP2 is used in this process."""
    return bool(_sharded())


def are_gathered() -> bool:
    """Whether there are parameters that FSDP2 gathers for a part of the step."""
    return may_be_gathered() and bool(living.objects(_sharded()))


def trained(tensors: Iterable[Any], device: torch.device) -> list[nn.Parameter]:
    """The parameters among these that are on a device and will have gradients."""
    given = [one for one in tensors if isinstance(one, nn.Parameter) and one.requires_grad]
    # What Dynamo compiles with may be no tensor that anybody trains.
    return [one for one in given if one.device.type == device.type and not isinstance(one, FakeTensor)]


def _loaded(module: str, name: str) -> tuple[type, ...]:
    """A class of what few programs use, if it is there."""
    found = getattr(sys.modules.get(module), name, None)
    return () if found is None else (found,)


def shards(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The same, and for those that FSDP2 has gathered what an optimizer trains: their shards."""
    known = living.objects(fsdp) if (fsdp := _sharded()) else []
    of = {id(getattr(one, "_unsharded_param", one)): one.sharded_param for one in known}
    return [of.get(id(one), one) for one in parameters]


def ddps() -> list[nn.parallel.DistributedDataParallel]:
    """All of this process."""
    return living.objects((nn.parallel.DistributedDataParallel,))


def in_buckets(ddp: nn.parallel.DistributedDataParallel) -> list[nn.Parameter]:
    """The parameters that its buckets have room for the gradients of."""
    left_out = ddp.parameters_to_ignore
    return [one for name, one in ddp.module.named_parameters() if one.requires_grad and name not in left_out]


def come_in_buckets(ddp: nn.parallel.DistributedDataParallel) -> bool:
    """Whether gradients will be views of buckets as soon as they are there."""
    return ddp.gradient_as_bucket_view and ddp.require_backward_grad_sync and not comes_late(ddp)


def comes_late(ddp: nn.parallel.DistributedDataParallel) -> bool:
    """Whether gradients are beside the buckets until the step is over: while a static graph is not known."""
    return ddp.gradient_as_bucket_view and ddp.static_graph and not ddp._has_rebuilt_buckets


def gradient_storages(gradient: torch.Tensor) -> set[int]:
    """The addresses of what a gradient is in."""
    return set(_storages([gradient]))


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.UntypedStorage]:
    """By address, what tensors are in, as far as rk knows the way they keep it."""
    parts = (part for one in tensors for part in _dense(local(one)))
    found = (part.untyped_storage() for part in parts if torch._C._has_storage(part))
    return {one._cdata: one for one in found}


def _dense(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors with memory that a tensor is made of."""
    if tensor.layout is not torch.sparse_coo:
        return (tensor,)
    # Somebody may be tracing, with fake tensors.
    with torch._C._DisableTorchDispatch():
        return tensor._indices(), tensor._values()


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(one.nbytes() for one in _storages(tensors).values())
