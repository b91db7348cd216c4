"""Pieces around functions of the user's own: ``autograd.Function`` in all its ways."""

from __future__ import annotations

import torch
from torch import nn

from campaigns.pieces.registry import piece


class Saved(torch.autograd.Function):
    """Saves its input, as PyTorch recommends."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * x.cos()


@piece("function", weight=2, needs=(Saved,))
def function_saved(x):
    return Saved.apply(x)


class SavedResult(torch.autograd.Function):
    """Saves what it returns."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return dy * (1 - y * y)


@piece("function", needs=(SavedResult,))
def function_saved_result(x):
    return SavedResult.apply(x)


class OnContext(torch.autograd.Function):
    """Keeps a tensor as an attribute: nobody watches whether it changes."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.scale, None


@piece("function", weight=2, needs=(OnContext,), takes=("scale",))
def function_on_context(x, scale):
    return torch.tanh(OnContext.apply(x, scale))


@piece("function", weight=2, needs=(OnContext,))
class ContextBuffer(nn.Module):
    """A buffer that is kept as an attribute."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("gain", torch.full((width,), 0.75))

    def forward(self, x):
        return OnContext.apply(torch.sin(x), self.gain)


class Number(torch.autograd.Function):
    """Keeps a number and a shape."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor, ctx.shape = factor, x.shape
        return x.flatten() * factor

    @staticmethod
    def backward(ctx, dy):
        return dy.view(ctx.shape) * ctx.factor, None


@piece("function", needs=(Number,), factor=(1.0, 0.5))
def function_number(x, factor):
    return Number.apply(x, factor).view_as(x)


class Reversal(torch.autograd.Function):
    """Nothing forward, the gradient reversed."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return -0.5 * dy


@piece("function", weight=2, needs=(Reversal,))
def function_reversal(x):
    return torch.sin(Reversal.apply(x))


class Rounded(torch.autograd.Function):
    """A straight-through estimator with a second, non-differentiable result."""

    @staticmethod
    def forward(ctx, x):
        places = (x > 0).long()
        ctx.mark_non_differentiable(places)
        ctx.set_materialize_grads(False)
        return x.round(decimals=1), places

    @staticmethod
    def backward(ctx, dy, _):
        return dy


@piece("function", weight=2, needs=(Rounded,))
def function_rounded(x):
    y, places = Rounded.apply(x)
    return y * (1 + places * 0.1)


class Dirty(torch.autograd.Function):
    """Overwrites its input."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(0.5)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy * 0.5


@piece("function", weight=2, needs=(Dirty,))
def function_dirty(x):
    return torch.tanh(Dirty.apply(x * 1.5))


class Chance(torch.autograd.Function):
    """Draws in forward, and keeps what it drew."""

    @staticmethod
    def forward(ctx, x):
        kept = torch.rand_like(x) > 0.3
        ctx.save_for_backward(kept)
        return x * kept

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0]


@piece("function", weight=2, needs=(Chance,))
def function_chance(x):
    return Chance.apply(torch.sin(x))


class Again(torch.autograd.Function):
    """Computes forward a second time in backward, as hand-made checkpoints do."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.tanh(x @ weight)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        y = torch.tanh(x @ weight)
        inner = dy * (1 - y * y)
        return inner @ weight.t(), x.t() @ inner


@piece("function", weight=2, needs=(Again,))
class FunctionAgain(nn.Module):
    """A hand-made checkpoint."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        return Again.apply(x, self.weight)


class Several(torch.autograd.Function):
    """Several results of one input, in the style of ``setup_context``; one gradient may be missing."""

    @staticmethod
    def forward(x):
        return x.sin(), x.cos(), x.detach().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output[:2])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, first, second, _):
        sin, cos = ctx.saved_tensors
        return first * cos - second * sin


@piece("function", needs=(Several,), used=("both", "one"))
def function_several(x, used):
    sin, cos, total = Several.apply(x)
    return sin + cos * total.sigmoid() if used == "both" else sin


class Counted(torch.autograd.Function):
    """Notes in a list of Python's when it runs backward."""

    calls: list[int] = []

    @staticmethod
    def forward(ctx, x):
        return x * 1.25

    @staticmethod
    def backward(ctx, dy):
        return dy * 1.25 + dy.sum() * 0


@piece("function", needs=(Counted,))
def function_counted(x):
    return Counted.apply(x).tanh()


class InputItself(torch.autograd.Function):
    """Returns its input as it is."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(other)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0].sigmoid(), None


@piece("function", needs=(InputItself,))
def function_input_itself(x):
    return InputItself.apply(x.sin(), x.detach()) * 2
