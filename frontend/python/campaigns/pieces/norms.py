"""Pieces with statistics and weights that are computed from others."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from campaigns.pieces.registry import piece


@piece("norm", weight=4, momentum=(0.1, None), affine=(True, False), track=(True, False))
class BatchNorm(nn.Module):
    """A linear layer and a batch norm."""

    def __init__(self, width, momentum, affine, track):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width, momentum=momentum, affine=affine, track_running_stats=track)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


@piece("norm", weight=2, count=(2, 3))
class NormTwice(nn.Module):
    """One batch norm that runs several times in a step."""

    def __init__(self, width, count):
        super().__init__()
        self.norm, self.count = nn.BatchNorm1d(width), count

    def forward(self, x):
        for _ in range(self.count):
            x = torch.tanh(self.norm(x) * 1.5)
        return x


@piece("norm", weight=2, how=("layer", "group", "rms", "instance", "local_response", "normalize"))
class Norm(nn.Module):
    """Norms without running statistics, but for one."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        if how == "layer":
            self.norm = nn.LayerNorm(width)
        elif how == "group":
            self.norm = nn.GroupNorm(4, width)
        elif how == "rms":
            self.norm = nn.RMSNorm(width)
        elif how == "instance":
            self.norm = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)

    def forward(self, x):
        if self.how == "instance":
            return self.norm(x.unflatten(1, (4, -1))).flatten(1)
        if self.how == "local_response":
            return functional.local_response_norm(x.unsqueeze(2), 3).squeeze(2)
        return functional.normalize(x, dim=1) * 4 if self.how == "normalize" else self.norm(x)


@piece("norm", weight=2)
class FrozenNorm(nn.Module):
    """A batch norm that stays in evaluation mode while its statistics are used."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.norm.running_mean.fill_(0.1)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x):
        return torch.sin(self.norm(x))


@piece("norm", weight=2)
class ImageNorm(nn.Module):
    """Convolution and batch norm of images."""

    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x):
        y = x.unflatten(1, (4, 2, -1))
        return (y + functional.relu(self.norm(self.conv(y)), inplace=True)).flatten(1)


@piece("parametrized", weight=3, how=("spectral", "weight", "orthogonal", "old_spectral", "old_weight"))
class Parametrized(nn.Module):
    """A layer whose weight is computed at every call."""

    def __init__(self, width, how):
        super().__init__()
        wrap = {
            "spectral": parametrizations.spectral_norm,
            "weight": parametrizations.weight_norm,
            "orthogonal": lambda one: parametrizations.orthogonal(one, orthogonal_map="cayley"),
            "old_spectral": nn.utils.spectral_norm,
            "old_weight": nn.utils.weight_norm,
        }[how]
        self.linear = wrap(nn.Linear(width, width))

    def forward(self, x):
        return torch.tanh(self.linear(x))


class Symmetric(nn.Module):
    """A parametrization that keeps count of its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, weight):
        with torch.no_grad():
            self.calls.add_(1)
        return weight.triu() + weight.triu(1).t()


@piece("parametrized", needs=(Symmetric,), cached=(False, True))
class OwnParametrization(nn.Module):
    """A parametrization of the user's, with state; its result may be cached for two calls."""

    def __init__(self, width, cached):
        super().__init__()
        self.cached, self.linear = cached, nn.Linear(width, width)
        parametrize.register_parametrization(self.linear, "weight", Symmetric())

    def forward(self, x):
        if not self.cached:
            return torch.tanh(self.linear(x))
        with parametrize.cached():
            return torch.tanh(self.linear(torch.tanh(self.linear(x))))


@piece("tied", weight=2, how=("twice", "transposed", "sliced"))
class Tied(nn.Module):
    """One weight in several places."""

    def __init__(self, width, how):
        super().__init__()
        self.how, self.first, self.second = how, nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, x):
        if self.how == "sliced":
            half = self.first.weight[: x.shape[1] // 2]
            return torch.cat([x @ half.t(), self.second(x)[:, : x.shape[1] // 2]], 1).tanh()
        y = torch.relu(self.first(x))
        return y @ self.second.weight if self.how == "transposed" else self.second(y)


@piece("frozen", weight=2, what=("weight", "all", "bias"))
class Frozen(nn.Module):
    """A layer of which something is not trained."""

    def __init__(self, width, what):
        super().__init__()
        self.linear = nn.Linear(width, width)
        for name, one in self.linear.named_parameters():
            one.requires_grad_(what not in ("all", name))

    def forward(self, x):
        return torch.sin(self.linear(x))


@piece("frozen", weight=2)
class Adapter(nn.Module):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)

    def forward(self, x):
        return torch.nn.functional.gelu(self.base(x) + self.up(self.down(x)))


@piece("unused")
class Unused(nn.Module):
    """Parameters that no result depends on, and one that nothing but a detached result does."""

    def __init__(self, width):
        super().__init__()
        self.never, self.late = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x * self.late(x).detach().sigmoid()
