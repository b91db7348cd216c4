"""Pieces that draw random numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from campaigns.pieces.registry import piece


@piece(
    "random",
    weight=5,
    rate=(0.5, 0.1, 0.9),
    how=("dropout", "alpha", "feature_alpha", "dropout1d", "dropout2d"),
)
class Dropped(nn.Module):
    """Dropout in its variants, behind a layer."""

    def __init__(self, width, rate, how):
        super().__init__()
        self.rate, self.how, self.linear = rate, how, nn.Linear(width, width)

    def forward(self, x):
        y = torch.sin(self.linear(x))
        if self.how == "dropout":
            return functional.dropout(y, self.rate, self.training)
        if self.how == "alpha":
            return functional.alpha_dropout(y, self.rate, self.training)
        if self.how == "feature_alpha":
            return functional.feature_alpha_dropout(y, self.rate, self.training)
        if self.how == "dropout1d":
            return functional.dropout1d(y.unflatten(1, (4, -1)), self.rate, self.training).flatten(1)
        return functional.dropout2d(y.unflatten(1, (4, 2, -1)), self.rate, self.training).flatten(1)


@piece("random", rate=(0.5, 0.2))
def dropped_in_place(x, rate):
    return functional.dropout(x * 1.5, rate, inplace=True)


@piece(
    "random",
    weight=5,
    how=(
        "rand_like",
        "randn_like",
        "randn",
        "bernoulli",
        "randperm",
        "randint",
        "normal",
        "gumbel",
        "rrelu",
        "exponential_",
    )
    + (
        "uniform_",
        "multinomial",
        "poisson",
        "bernoulli_",
        "normal_",
        "cauchy_",
        "geometric_",
        "rand",
        "random_",
        "hard",
    ),
)
def drawn(x, how):
    if how == "rand_like":
        return x * torch.rand_like(x)
    if how == "randn_like":
        return x + 0.1 * torch.randn_like(x)
    if how in ("randn", "rand"):
        return torch.sin(x + getattr(torch, how)(x.shape[1], dtype=x.dtype))
    if how == "bernoulli":
        return x * torch.bernoulli(torch.sigmoid(x).detach())
    if how == "randperm":
        return x[torch.randperm(x.shape[0])] * x
    if how == "randint":
        return x.gather(1, torch.randint(x.shape[1], x.shape)).tanh()
    if how == "normal":
        return x * torch.normal(1.0, 0.1, x.shape).to(x.dtype)
    if how in ("gumbel", "hard"):
        return functional.gumbel_softmax(x, tau=0.7, hard=how == "hard") + x
    if how == "rrelu":
        return functional.rrelu(x, training=True)
    if how == "multinomial":
        return x + x[:, torch.multinomial(torch.sigmoid(x.detach()).mean(0).float(), 4)].mean(1, keepdim=True)
    if how == "poisson":
        return x * torch.poisson(x.detach().abs()).clamp(max=2)
    if how in ("exponential_", "cauchy_"):
        return torch.tanh(x + getattr(torch.empty_like(x), how)())
    if how == "geometric_":
        return x / torch.empty_like(x).geometric_(0.5).clamp(1, 4)
    if how == "random_":
        return torch.sin(x * torch.empty_like(x).random_(1, 4))
    if how == "bernoulli_":
        return x * torch.empty_like(x).bernoulli_(0.7)
    return torch.sin(x + getattr(torch.empty_like(x), how)())


@piece("random", weight=2)
class NoisyBuffer(nn.Module):
    """Noise in a buffer, drawn anew at every call."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("noise", torch.zeros(width))

    def forward(self, x):
        self.noise.normal_(0, 0.2)
        return torch.sin(x + self.noise)


@piece("random", weight=2)
class NoisyWeight(nn.Module):
    """Noise on a weight, and a mask on its result."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        weight = self.linear.weight + torch.randn_like(self.linear.weight) * 0.01
        return functional.linear(x, weight, self.linear.bias) * (
            torch.rand(x.shape[0], 1, dtype=x.dtype) > 0.2
        )


@piece("own generator", weight=2)
class OwnGenerator(nn.Module):
    """Draws from a generator of the user's."""

    def __init__(self, width):
        super().__init__()
        self.generator = torch.Generator().manual_seed(5)

    def forward(self, x):
        return x + 0.1 * torch.rand(x.shape, generator=self.generator, dtype=x.dtype).sin()


@piece("random")
def stochastic_depth(x):
    kept = (torch.rand(x.shape[0], 1, dtype=x.dtype) > 0.3).to(x.dtype) / 0.7
    return x + torch.tanh(x * 2) * kept


@piece("random")
def mixed_rows(x):
    share = torch.rand(())
    return (share * x + (1 - share) * x[torch.randperm(x.shape[0])]).to(x.dtype)


@piece("random")
class Bottleneck(nn.Module):
    """A variational bottleneck."""

    def __init__(self, width):
        super().__init__()
        self.into, self.out = nn.Linear(width, 16), nn.Linear(8, width)

    def forward(self, x):
        mean, log = self.into(x).chunk(2, 1)
        return self.out(mean + torch.randn_like(mean) * torch.exp(0.5 * log.clamp(-2, 2)))


@piece("random")
def seeded_inside(x):
    y = functional.dropout(x, 0.3)
    with torch.no_grad():
        noise = torch.rand_like(y)
    return functional.dropout(y * noise, 0.3) + torch.rand(1, dtype=x.dtype)
