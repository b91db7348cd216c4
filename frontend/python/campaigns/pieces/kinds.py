"""Pieces in which numbers or tensors are of other kinds: precision, autocast, subclasses of tensors."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils import _pytree as pytree

from campaigns.pieces.registry import piece


@piece("dtype", weight=3, to=("float64", "bfloat16", "float16", "int32", "float8_e4m3fn", "bool", "int8"))
class Cast(nn.Module):
    """A detour through another type of number."""

    def __init__(self, width, to):
        super().__init__()
        self.to_, self.linear = getattr(torch, to), nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(x)
        if self.to_ in (torch.int32, torch.bool, torch.int8):
            return y * (y * 4).to(self.to_).to(y.dtype)
        if self.to_ is torch.float8_e4m3fn:
            return y.to(self.to_).to(y.dtype) * y.sigmoid()
        return y.to(self.to_).sin().mul(0.5).to(y.dtype) + x


@piece("autocast", weight=2, inner=("all", "product"))
class Autocast(nn.Module):
    """A region of lower precision."""

    def __init__(self, width, inner):
        super().__init__()
        self.inner, self.linear, self.norm = inner, nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.linear(x)
            if self.inner == "all":
                y = self.norm(torch.relu(y))
        return torch.tanh(y.to(x.dtype)) + x


@piece("autocast")
def without_autocast(x):
    with torch.autocast("cpu", enabled=False):
        return torch.tanh(x @ x.t()) @ x * 0.1


class Twofold(torch.Tensor):
    """A wrapper subclass: a tensor and its negative, on which operators run one by one."""

    @staticmethod
    def __new__(cls, one, other):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            one.shape,
            strides=one.stride(),
            dtype=one.dtype,
            device=one.device,
            requires_grad=one.requires_grad,
        )

    def __init__(self, one, other):
        self.one, self.other = one, other

    def __tensor_flatten__(self):
        return ["one", "other"], None

    @staticmethod
    def __tensor_unflatten__(inner, _meta, _size, _stride):
        return Twofold(inner["one"], inner["other"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        take = lambda name: lambda one: getattr(one, name) if isinstance(one, Twofold) else one  # noqa: E731
        ones = func(*pytree.tree_map(take("one"), args), **pytree.tree_map(take("one"), kwargs))
        others = func(*pytree.tree_map(take("other"), args), **pytree.tree_map(take("other"), kwargs))
        if isinstance(ones, torch.Tensor):
            return Twofold(ones, others)
        return ones


class IntoTwofold(torch.autograd.Function):
    """Makes one of a tensor."""

    @staticmethod
    def forward(ctx, x):
        return Twofold(x, -x)

    @staticmethod
    def backward(ctx, dy):
        return dy.one - dy.other if isinstance(dy, Twofold) else dy


class OutOfTwofold(torch.autograd.Function):
    """Adds up the two."""

    @staticmethod
    def forward(ctx, both):
        return both.one - 0.5 * both.other

    @staticmethod
    def backward(ctx, dy):
        return Twofold(dy, -0.5 * dy)


@torch._dynamo.allow_in_graph
def into_twofold(x):
    return IntoTwofold.apply(x)


@piece("subclass", weight=3, needs=(Twofold, IntoTwofold, OutOfTwofold, into_twofold))
def twofold(x):
    return OutOfTwofold.apply(torch.tanh(into_twofold(x) * 0.5))


@piece("subclass", weight=2, needs=(Twofold, OutOfTwofold))
class TwofoldBuffer(nn.Module):
    """A buffer that is one."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("both", Twofold(torch.ones(width), torch.zeros(width)))

    def forward(self, x):
        return torch.tanh(x * OutOfTwofold.apply(self.both + 0.5))


class Named(torch.Tensor):
    """A subclass that adds nothing."""


@piece("subclass", needs=(Named,))
def named(x):
    return torch.sin(x.as_subclass(Named)).as_subclass(torch.Tensor) * x


@piece("subclass")
class NamedParameter(nn.Module):
    """A parameter that was given other data."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(width))
        self.gain.data = torch.ones(width) * 0.5

    def forward(self, x):
        return torch.sin(x * self.gain)


@piece("nested")
class Jagged(nn.Module):
    """A nested tensor that is made inside."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        nested = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, x.shape[0]]))
        return torch.sin(self.linear(nested)).values()


@piece("sparse")
def sparse_product(x):
    with torch.no_grad():
        chosen = torch.where(x.abs() > 0.5, x, 0).t().float().to_sparse()
    return (torch.sparse.mm(chosen, x.float()).t() @ x.t().float()).to(x.dtype).t()[
        :, : x.shape[1]
    ].tanh().mean(1, keepdim=True) * x
