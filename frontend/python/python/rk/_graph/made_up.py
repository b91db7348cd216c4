"""Operators run on made-up values while something is compiled: to measure them, to see whether they draw.

Not here: what is measured (:mod:`rk._plan.costs`).
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from rk._graph import settings

IN_HOST_MEMORY = {
    torch.ops.aten._scaled_dot_product_efficient_attention_backward.default: ("philox_seed", "philox_offset"),
    torch.ops.aten._efficient_attention_backward.default: ("philox_seed", "philox_offset"),
}
"""Operands that lie in the host's memory, whatever the tracing says: where the mask of an attention begins.
They are read when the call is queued, and a made-up value on the GPU would be read from a wild address.
"""
OPAQUE = {"workspace", "reserve", "reserveSpace", "reservedSpace"}
"""Operands that a library has written for itself in the forward pass. It trusts what it finds there, and that
there is as much of it as it left, which the tracing does not know.
"""


@contextlib.contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """For operators that run while something is compiled: they change nothing of the user's, generators
    included, and are not changed by his switches.
    """
    rng = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    kernels = settings.Kernels(device).kept()
    with rng, kernels, torch.no_grad(), torch._C._DisableAutocast(), real_tensors():
        yield


@contextlib.contextmanager
def real_tensors() -> Iterator[None]:
    """Out of the fake world that the compiler works in."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def result(node: fx.Node) -> Any:
    """The result of a call on made-up tensors of the right sizes and strides."""
    args, kwargs = arguments(node)
    return node.target(*args, **kwargs)


def arguments(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Values that the operator accepts: halves, and zeros where an index may be meant."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    names += [""] * (len(node.args) - len(names))
    on_host = IN_HOST_MEMORY.get(node.target, ())
    args = []
    for name, value in zip(names, node.args, strict=False):
        made_up = _by_its_call if name in OPAQUE else functools.partial(_made_up, on_host=name in on_host)
        args.append(map_arg(value, made_up))
        if "pivots" in name and isinstance(args[-1], torch.Tensor):
            # LAPACK counts rows from one, and trusts its caller: row zero is before the matrix.
            args[-1].fill_(1)
    return tuple(args), map_arg(dict(node.kwargs), _made_up)


def _by_its_call(node: fx.Node) -> Any:
    """What the call that makes it gives for made-up values."""
    if node.op != "call_function":
        return _made_up(node)
    if node.target is operator.getitem:
        return _by_its_call(node.args[0])[node.args[1]]
    return result(node)


def _made_up(node: fx.Node, on_host: bool = False) -> Any:
    fake = node.meta.get("val")
    if isinstance(fake, (list, tuple)):
        return type(fake)(_filled(one, on_host) for one in fake)
    return _filled(fake, on_host)


def _filled(fake: Any, on_host: bool) -> Any:
    if not isinstance(fake, torch.Tensor):
        return fake
    device = "cpu" if on_host else fake.device
    real = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)
    return real.fill_(0.5 if fake.dtype.is_floating_point or fake.dtype.is_complex else 0)
