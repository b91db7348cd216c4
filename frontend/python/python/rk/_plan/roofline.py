"""A roofline model of a call's time: where nothing can be measured, or a plan is to be that of any machine.

time = launch + max(bytes moved / bandwidth, operations / throughput). Operations are those that PyTorch's
flop counter counts (matrix products, convolutions, fused attention, two per multiply-add); everything else
is bound by memory. The ceilings are those of the compiler and describe a middling machine: the model ranks
calls, it does not predict seconds. Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from rk import _rk

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Ceilings:
    """What a kind of device can do."""

    bandwidth: float
    """Bytes a second from memory."""
    throughput: float
    """Operations a second in dense linear algebra."""
    launch: float
    """Seconds that any call takes."""


CPU = Ceilings(*_rk.roofline("cpu"))
GPU = Ceilings(*_rk.roofline("cuda"))

FORMULAS = {str(operator): formula for operator, formula in flop_registry.items()}
FLASH = "aten._scaled_dot_product_flash_attention"
COUNTED_AS = {f"{FLASH}_for_cpu": FLASH, f"{FLASH}_for_cpu_backward": f"{FLASH}_backward"}
"""Operators that PyTorch's flop counter does not know, with those that take the same operands first."""


def ceilings(device: torch.device) -> Ceilings:
    """Those of a kind of device."""
    return CPU if device.type == "cpu" else GPU


def nanoseconds(node: fx.Node, device: torch.device) -> int:
    """The time of one run of a call of a graph; ``val`` in the metadata gives the sizes."""
    args, kwargs = (map_arg(given, _value) for given in (node.args, node.kwargs))
    return _nanoseconds(node.target, args, kwargs, node.meta.get("val"), device)


def moved(node: fx.Node) -> int:
    """The bytes of all operands and results of a call of a graph."""
    args, kwargs = (map_arg(given, _value) for given in (node.args, node.kwargs))
    return _bytes(args, kwargs, node.meta.get("val"))


class Clock(TorchDispatchMode):
    """Counts the time of all operators that run while this context lasts, in ``seconds``."""

    seconds = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204, D105
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not func.is_view:
            device = next((one.device for one in _tensors(args, kwargs, out)), torch.device("cpu"))
            self.seconds += _nanoseconds(func, args, kwargs, out, device) * 1e-9
        return out


def _nanoseconds(target: Any, args: Any, kwargs: Any, out: Any, device: torch.device) -> int:
    of = ceilings(device)
    traffic = _bytes(args, kwargs, out) / of.bandwidth
    return max(int((of.launch + max(traffic, _flops(target, args, kwargs, out) / of.throughput)) * 1e9), 1)


def _tensors(*values: Any) -> list[torch.Tensor]:
    return [one for one in pytree.tree_leaves(values) if isinstance(one, torch.Tensor)]


def _bytes(*values: Any) -> int:
    return sum(one.nbytes for one in _tensors(*values) if one.layout is torch.strided)


def _flops(target: Any, args: Any, kwargs: Any, out: Any) -> int:
    name = str(getattr(target, "overloadpacket", target))
    count = FORMULAS.get(COUNTED_AS.get(name, name))
    if count is None:
        return 0
    try:
        return int(count(*args, **kwargs, out_val=out))
    except Exception as error:  # noqa: BLE001 - a formula may not know a use of its operator
        log.info("rk: PyTorch cannot count the operations of %s: %s", target, error)
        return 0


def _value(node: fx.Node) -> Any:
    return node.meta.get("val")
