"""Pieces without surprises: layers, activations, reductions, indexing, linear algebra."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from campaigns.pieces.registry import piece

ACTIVATIONS = ("gelu", "relu", "tanh", "silu", "softplus", "elu", "hardtanh", "leaky_relu", "sigmoid", "selu")
ACTIVATIONS += ("mish", "hardswish", "logsigmoid", "softsign", "celu", "hardsigmoid")


@piece("layer", weight=12, act=ACTIVATIONS, bias=(True, False))
class Layer(nn.Module):
    """A linear layer and an activation."""

    def __init__(self, width, act, bias):
        super().__init__()
        self.act = getattr(functional, act)
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        return self.act(self.linear(x))


@piece("layer", act=("relu", "relu6", "leaky_relu", "elu", "silu", "hardswish"))
class InPlaceActivation(nn.Module):
    """An activation that overwrites the layer's result."""

    def __init__(self, width, act):
        super().__init__()
        self.act = getattr(functional, act)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.act(self.linear(x), inplace=True)


@piece("layer", weight=2)
class Gated(nn.Module):
    """A gated linear unit."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(functional.glu(self.up(x)))


@piece("layer", weight=2)
class Perceptron(nn.Module):
    """Two layers around which a residual goes."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.inner(x)


@piece("layer")
class Learned(nn.Module):
    """Activations with parameters of their own."""

    def __init__(self, width):
        super().__init__()
        self.act, self.scale = nn.PReLU(width), nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.act(x) * self.scale


@piece("layer")
class Pairing(nn.Module):
    """A bilinear layer of the rows with themselves."""

    def __init__(self, width):
        super().__init__()
        self.bilinear = nn.Bilinear(4, 4, width)

    def forward(self, x):
        return torch.tanh(self.bilinear(x[:, :4], x[:, 4:8])) + x


@piece("layer", experts=(2, 3))
class Experts(nn.Module):
    """A mixture in which every expert sees all rows."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, i, None] * one(x) for i, one in enumerate(self.experts))


@piece(
    "elementwise",
    weight=3,
    f=("sin", "cos", "exp", "log", "sqrt", "rsqrt", "square", "abs", "atan", "erf", "expm1", "log1p", "neg")
    + ("reciprocal", "sign", "floor", "frac", "sinh", "asinh", "sinc", "digamma", "lgamma", "i0", "logit"),
)
def elementwise(x, f):
    if f in ("log", "sqrt", "rsqrt", "log1p", "reciprocal", "digamma", "lgamma"):
        x = x.abs() + 0.5
    if f == "logit":
        x = x.sigmoid()
    return torch.tanh(getattr(torch, f)(x.clamp(-3, 3)))


@piece(
    "elementwise", f=("atan2", "hypot", "fmax", "minimum", "copysign", "fmod", "xlogy", "logaddexp", "ldexp")
)
def binary(x, f):
    return torch.tanh(getattr(torch, f)(x, x.roll(1, 0).abs() + 0.1))


@piece(
    "elementwise",
    how=("where", "masked_fill", "clamp", "lerp", "addcmul", "addcdiv", "nan_to_num", "heaviside"),
)
def choosing(x, how):
    other = x.flip(1)
    if how == "where":
        return torch.where(x > other, x, other * 0.5)
    if how == "masked_fill":
        return x.masked_fill(x > 0.3, -0.25)
    if how == "clamp":
        return torch.clamp(x, min=other - 1, max=other.abs() + 1)
    if how == "lerp":
        return torch.lerp(x, other, torch.sigmoid(x))
    if how == "addcmul":
        return torch.addcmul(x, x, other, value=0.5)
    if how == "addcdiv":
        return torch.addcdiv(x, other, other.abs() + 1, value=0.5)
    if how == "nan_to_num":
        return torch.nan_to_num(torch.log(x), nan=0.5, neginf=0.0)
    return x * torch.heaviside(other.detach(), torch.ones((), dtype=x.dtype))


@piece(
    "reduction",
    weight=2,
    how=(
        "sum",
        "mean",
        "var",
        "std",
        "amax",
        "logsumexp",
        "norm",
        "prod",
        "median",
        "cumsum",
        "cumprod",
        "softmax",
    )
    + ("log_softmax", "var_mean", "kthvalue", "mode", "logcumsumexp", "cummax", "vector_norm"),
    dim=(1, 0),
)
def reduced(x, how, dim):
    if how in ("sum", "mean", "var", "std", "logsumexp", "prod", "norm"):
        return torch.tanh(x - getattr(x.clamp(-2, 2), how)(dim, keepdim=True))
    if how == "amax":
        return x - x.amax(dim, keepdim=True)
    if how == "vector_norm":
        return x / (torch.linalg.vector_norm(x, dim=dim, keepdim=True) + 1)
    if how in ("median", "mode"):
        return x - getattr(x, how)(dim, keepdim=True).values
    if how == "kthvalue":
        return x * torch.kthvalue(x, 2, dim, keepdim=True).values.sigmoid()
    if how in ("cumsum", "logcumsumexp", "cumprod"):
        return torch.tanh(getattr(x, how)(dim))
    if how == "cummax":
        return x - x.cummax(dim).values
    if how == "var_mean":
        var, mean = torch.var_mean(x, dim, keepdim=True)
        return (x - mean) * torch.rsqrt(var + 1)
    return getattr(x, how)(dim) * 4


@piece(
    "indexing",
    weight=2,
    how=(
        "sort",
        "topk",
        "gather",
        "index_select",
        "take_along_dim",
        "argsort",
        "scatter_add",
        "index_add",
        "unbind",
    )
    + (
        "repeat_interleave",
        "index",
        "boolean",
        "narrow",
        "diagonal",
        "unfold",
        "scatter_reduce",
        "index_put",
    ),
)
def indexed(x, how):
    rows, width = x.shape
    if how == "sort":
        return x.sort(1).values
    if how == "topk":
        values, places = x.topk(width // 2, 1)
        return torch.cat([values, x.gather(1, places) * 0.5], 1)
    if how == "gather":
        return x.gather(1, x.detach().argsort(1)) + x
    if how == "index_select":
        return x.index_select(1, torch.arange(width - 1, -1, -1))
    if how == "take_along_dim":
        return torch.take_along_dim(x, x.detach().abs().argsort(1), 1)
    if how == "argsort":
        return x[x.sum(1).argsort()]
    if how == "scatter_add":
        return torch.zeros_like(x).scatter_add(1, (x > 0).long(), x) + x
    if how == "index_add":
        return x.index_add(0, torch.zeros(rows, dtype=torch.long), x * 0.1)
    if how == "unbind":
        return torch.stack([one * (0.5 + i / width) for i, one in enumerate(x.unbind(1))], 1)
    if how == "repeat_interleave":
        return x[:, : width // 2].repeat_interleave(2, 1)
    if how == "index":
        return x[:, [0] * (width // 2) + list(range(width // 2))]
    if how == "boolean":
        return x * (x[x > 0].sum() * 0.01).tanh()
    if how == "narrow":
        return torch.cat([x.narrow(1, 4, width - 4), x[:, :4] ** 2], 1)
    if how == "diagonal":
        return x + x.diagonal().sum() * 0.1
    if how == "unfold":
        return x.unfold(1, 4, 4).flip(2).reshape(rows, width)
    if how == "scatter_reduce":
        return x.scatter_reduce(1, (x > 0).long(), x.sin(), "amax")
    return x.index_put(
        (torch.arange(rows), torch.zeros(rows, dtype=torch.long)), x[:, 1] * 2, accumulate=True
    )


@piece(
    "shape",
    weight=2,
    how=("transpose", "permute", "roll", "flip", "expand", "split", "as_strided", "movedim", "tile"),
)
def shaped(x, how):
    rows, width = x.shape
    if how == "transpose":
        return (x.t() * torch.arange(rows, dtype=x.dtype).sin()).t()
    if how == "permute":
        return x.unflatten(1, (4, -1)).permute(0, 2, 1).flatten(1)
    if how == "roll":
        return x.roll((1, 2), (0, 1)) * x
    if how == "flip":
        return x.flip(0, 1)
    if how == "expand":
        return x * x[:, :1].expand_as(x) + x.mean(0).expand(rows, width)
    if how == "split":
        left, right = x.split([4, width - 4], 1)
        return torch.cat([right.tanh(), left * 2], 1)
    if how == "as_strided":
        return x.contiguous().as_strided((rows, width), (width, 1)) * 0.5
    if how == "movedim":
        return x.unflatten(1, (2, -1)).movedim(1, 2).reshape(rows, width)
    return (x[:, : width // 2].tile(1, 2) + x.repeat(2, 1)[:rows]) * 0.5


@piece(
    "algebra",
    how=("einsum", "bmm", "baddbmm", "cdist", "inv", "cholesky", "solve", "qr", "matrix_exp", "det", "pinv"),
)
def algebra(x, how):
    square = x.unflatten(1, (-1, 2, 2))
    if how == "einsum":
        return torch.tanh(torch.einsum("bi,ci,cj->bj", x, x, x) * 0.1)
    if how == "bmm":
        return torch.matmul(square, square.transpose(-1, -2)).flatten(1).tanh()
    if how == "baddbmm":
        flat = square.flatten(0, 1)
        return torch.baddbmm(flat, flat, flat, beta=0.5).tanh().reshape_as(x)
    if how == "cdist":
        return x * torch.cdist(x, x + 1).mean(1, keepdim=True).tanh()
    if x.dtype is torch.bfloat16:
        return x
    positive = square @ square.transpose(-1, -2) + torch.eye(2, dtype=x.dtype)
    if how == "inv":
        return torch.linalg.inv(positive).flatten(1)
    if how == "cholesky":
        return torch.linalg.cholesky(positive).flatten(1).tanh()
    if how == "solve":
        return torch.linalg.solve(positive, square).flatten(1)
    if how == "qr":
        return torch.linalg.qr(positive).R.flatten(1).tanh()
    if how == "matrix_exp":
        return torch.linalg.matrix_exp(square.tanh()).flatten(1).tanh()
    if how == "det":
        return x * torch.linalg.det(positive).mean(1, keepdim=True).tanh()
    return torch.linalg.pinv(positive).flatten(1)


@piece(
    "loss",
    takes=("labels",),
    how=("cross_entropy", "nll", "kl_div", "huber", "cosine", "bce", "ctc", "margin"),
)
def scored(x, labels, how):
    rows, width = x.shape
    if how == "cross_entropy":
        score = functional.cross_entropy(x, labels, label_smoothing=0.1)
    elif how == "nll":
        score = functional.nll_loss(x.log_softmax(1), labels, reduction="none")[:, None]
    elif how == "kl_div":
        score = functional.kl_div(x.log_softmax(1), x.detach().softmax(1), reduction="batchmean")
    elif how == "huber":
        score = functional.huber_loss(x, x.detach().roll(1, 0))
    elif how == "cosine":
        score = functional.cosine_similarity(x, x.flip(1), dim=1)[:, None]
    elif how == "bce":
        score = functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype))
    elif how == "ctc":
        if x.dtype is torch.bfloat16:
            return x
        steps = x.unflatten(1, (4, -1)).transpose(0, 1).log_softmax(2)
        many = torch.full((rows,), 4, dtype=torch.long)
        score = functional.ctc_loss(steps, torch.ones(rows, 2, dtype=torch.long), many, many // 2)
    else:
        score = functional.multi_margin_loss(x, labels)
    return x * torch.sigmoid(score)
