"""A roofline model of a call's time: where nothing can be measured, or a plan is to be that of any machine.

time = launch + max(bytes moved / bandwidth, operations / throughput). Operations are those that PyTorch's
flop counter counts (matrix products, convolutions, fused attention, two per multiply-add); everything else
is bound by memory. The ceilings describe a middling machine: the model ranks calls, it does not predict
seconds. Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

from rk._graph import joint

log = logging.getLogger(__name__)
aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Ceilings:
    """What a kind of device can do."""

    bandwidth: float
    """Bytes a second from memory."""
    throughput: float
    """Operations a second in dense linear algebra."""
    launch: float
    """Seconds that any call takes."""


CPU = Ceilings(bandwidth=20e9, throughput=100e9, launch=1e-6)
"""Two desktop cores."""
GPU = Ceilings(bandwidth=2e12, throughput=100e12, launch=4e-6)
"""A data-centre GPU in tf32."""

COUNTED_AS = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        aten._scaled_dot_product_flash_attention_backward
    ),
}
"""Operators that PyTorch's flop counter does not know, with those that take the same operands first."""


def ceilings(device: torch.device) -> Ceilings:
    """Those of a kind of device."""
    return CPU if device.type == "cpu" else GPU


def nanoseconds(node: fx.Node, device: torch.device) -> int:
    """The time of one run of a call, whose ``val`` of metadata and of its operands give the sizes."""
    of = ceilings(device)
    return max(int((of.launch + max(moved(node) / of.bandwidth, _flops(node) / of.throughput)) * 1e9), 1)


def moved(node: fx.Node) -> int:
    """The bytes of all operands and results."""
    operands = [one for source in node.all_input_nodes for one in joint.results_of(source)]
    return sum(one.nbytes for one in (*operands, *joint.results_of(node)) if one is not None)


def _flops(node: fx.Node) -> int:
    packet = getattr(node.target, "overloadpacket", None)
    count = flop_registry.get(COUNTED_AS.get(packet, packet))
    if count is None:
        return 0
    args, kwargs = (map_arg(given, _value) for given in (node.args, node.kwargs))
    try:
        return int(count(*args, **kwargs, out_val=node.meta.get("val")))
    except Exception as error:  # noqa: BLE001 - a formula may not know a use of its operator
        log.info("rk: PyTorch cannot count the operations of %s: %s", node.target, error)
        return 0


def _value(node: fx.Node) -> Any:
    return node.meta.get("val")
