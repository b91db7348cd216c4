"""Pieces in which order matters: breaks, branches, checkpoints, regions without gradient, hooks."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from campaigns.pieces.registry import piece


@piece("graph break", weight=3, how=("print", "explicit", "item", "branch", "numpy", "list"))
def broken(x, how):
    y = torch.sin(x * 1.5)
    if how == "print":
        print(end="")
    elif how == "explicit":
        torch._dynamo.graph_break()
    elif how == "item":
        return torch.tanh(y * y.sum().sigmoid().item())
    elif how == "branch":
        return y.tanh() if y.sum() > 0 else y.cos()
    elif how == "numpy":
        return torch.tanh(y + float(y.detach().float().numpy().mean()))
    else:
        return torch.tanh(y) * len([one for one in y[0].tolist() if one > 0])
    return torch.tanh(y)


@piece("graph break", weight=2)
class BrokenInside(nn.Module):
    """A break between two layers."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = functional.gelu(self.first(x))
        torch._dynamo.graph_break()
        return functional.gelu(self.second(y))


@torch._dynamo.disable
def untraced(x):
    return torch.sin(x) * x


@piece("graph break", needs=(untraced,))
def not_traced(x):
    return untraced(x * 1.2) + x


@piece("unknown size", how=("nonzero", "masked", "unique"))
def unknown_size(x, how):
    if how == "nonzero":
        return x + torch.where(x[:, 0] > 0)[0].shape[0] * 0.01
    if how == "masked":
        return x * x.masked_select(x > 0).sum().sigmoid()
    return x + torch.unique(x.detach().round()).numel() * 0.01


@piece("region", weight=2, how=("detach", "no_grad", "inference", "enable", "straight through", "half"))
def region(x, how):
    if how == "detach":
        return x * x.detach().tanh()
    if how == "no_grad":
        with torch.no_grad():
            weight = (x * x).mean(1, keepdim=True).sigmoid()
        return torch.sin(x) * weight
    if how == "inference":
        with torch.no_grad(), torch.enable_grad():
            return torch.tanh(x.sin())
    if how == "enable":
        with torch.no_grad():
            y = x.sin()
            with torch.enable_grad():
                z = x.cos()
        return y * z
    if how == "straight through":
        return x + (torch.sign(x) - x).detach() * 0.5
    return torch.cat([x[:, ::2].detach(), x[:, 1::2] * x[:, ::2]], 1)


def keep_products():
    """A policy that saves matrix products."""

    def policy(_context, operator, *_args, **_kwargs):
        keep = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


@piece(
    "checkpoint", weight=3, needs=(keep_products,), how=("plain", "selective", "nested", "random", "writing")
)
class Checkpointed(nn.Module):
    """A checkpoint of the user's."""

    def __init__(self, width, how):
        super().__init__()
        self.how, self.first, self.second = how, nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("calls", torch.zeros(()))

    def inner(self, x):
        y = torch.sin(self.first(x))
        if self.how == "random":
            y = functional.dropout(y, 0.3)
        if self.how == "nested":
            return checkpoint(lambda z: torch.tanh(self.second(z)), y, use_reentrant=False)
        if self.how == "writing":
            y = y.mul_(2)
        return torch.tanh(self.second(y))

    def forward(self, x):
        more = {"context_fn": keep_products} if self.how == "selective" else {}
        return checkpoint(self.inner, x, use_reentrant=False, **more)


def tripled(gradient):
    """What a hook makes of a gradient."""
    return gradient * 3


@piece("hook", weight=2, needs=(tripled,))
def hooked(x):
    y = torch.sin(x)
    if y.requires_grad:
        y.register_hook(tripled)
    return y * 2


@piece("hook", weight=3, needs=(tripled,), how=("forward", "pre", "backward", "backward pre"))
class HookedModule(nn.Module):
    """A module with a hook."""

    def __init__(self, width, how):
        super().__init__()
        self.linear = nn.Linear(width, width)
        if how == "forward":
            self.linear.register_forward_hook(lambda module, inputs, output: output.sin())
        elif how == "pre":
            self.linear.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5,))
        elif how == "backward":
            self.linear.register_full_backward_hook(
                lambda module, into, out: tuple(one if one is None else tripled(one) for one in into)
            )
        else:
            self.linear.register_full_backward_pre_hook(
                lambda module, out: tuple(tripled(one) for one in out)
            )

    def forward(self, x):
        return torch.tanh(self.linear(x))


@piece("transform", weight=3, how=("call", "vmap", "grad", "ensemble", "jvp"))
class Transformed(nn.Module):
    """Transformations of functions inside of the model."""

    def __init__(self, width, how):
        super().__init__()
        self.how, self.linear, self.gain = how, nn.Linear(width, width), nn.Parameter(torch.ones(width))

    def forward(self, x):
        if self.how == "call":
            weights = {"weight": self.linear.weight.tanh(), "bias": self.linear.bias}
            return functional_call(self.linear, weights, (x,)).sin()
        if self.how == "vmap":
            return vmap(lambda row: torch.tanh(row * self.gain).cumsum(0) * 0.1)(x)
        if self.how == "grad":
            return torch.func.grad(lambda row: (row * self.gain).sin().sum())(x)
        if self.how == "jvp":
            return torch.func.jvp(lambda row: torch.sin(row * self.gain), (x,), (x.cos(),))[1]
        return vmap(lambda gain: torch.sin(x * gain))(torch.stack([self.gain, self.gain * 0.5])).mean(0)


@piece("higher order", how=("cond", "scan", "map"))
def higher_order(x, how):
    if how == "cond":
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))
    if how == "scan":
        from torch._higher_order_ops import scan

        return scan(lambda carry, row: (carry + row, (carry * row).tanh()), x[0] * 0.1, x)[1] + x
    from torch._higher_order_ops.map import map as mapped

    return mapped(lambda row: torch.sin(row), x)


@piece("gradient inside")
def gradient_penalty(x):
    if not torch.is_grad_enabled():
        return x
    y = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(torch.sin(y).sum(), y)
    return x * slope.detach()


@piece("python", weight=2, how=("list", "dict", "closure", "generator", "try", "dataclass"))
def plain_python(x, how):
    if how == "list":
        parts = [x * factor for factor in (0.5, 1.0, 0.25)]
        parts[1] = parts[1].tanh()
        return torch.stack(parts).sum(0)
    if how == "dict":
        named = {"a": x.sin(), "b": x.cos()}
        named["a"] = named["a"] * named.pop("b")
        return named["a"]
    if how == "closure":
        kept = x.tanh()
        return (lambda y: y * kept)(x)
    if how == "generator":
        return sum(x[:, i : i + 1].sin() * x for i in range(3)) / 3
    if how == "try":
        try:
            return torch.sin(x)
        finally:
            x = None
    pair = torch.utils._pytree.tree_map(torch.tanh, (x, {"y": x * 2}))
    return pair[0] + pair[1]["y"]
