"""Small models whose arguments are changed between forward and backward, by name of what is changed."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint


class Shifted(nn.Module):
    """A buffer that backward does not need, and inputs that are normalized by buffers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(5))
        self.register_buffer("center", torch.linspace(-1, 1, 64))
        self.register_buffer("mean", torch.full((64,), 0.1))

    def forward(self, x):
        x = (x - self.mean) * 2
        for layer in self.layers:
            x = torch.tanh(layer(x) - self.center)
        return x


class Normed(nn.Module):
    """Batch norms, whose biases backward does not read, and whose statistics the step updates."""

    def __init__(self):
        super().__init__()
        layers = (nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU()) for _ in range(4))
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(x)


class Attention(nn.Module):
    """A mask that is computed from tokens, in front of a softmax; an embedding that is not tied."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.positions = nn.Embedding(16, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 96) for _ in range(3))
        self.register_buffer("ids", torch.arange(16))

    def forward(self, tokens, mask):
        shade = (1.0 - mask[:, None, None, :].float()) * -10
        x = self.embed(tokens) + self.positions(self.ids)
        for layer in self.layers:
            q, k, v = (one.unflatten(-1, (4, 8)).transpose(1, 2) for one in layer(x).chunk(3, -1))
            weights = torch.softmax(q @ k.transpose(-1, -2) + shade, -1)
            x = x + (weights @ v).transpose(1, 2).flatten(2)
        return x


class Frozen(nn.Module):
    """The first layers have no gradient, so backward reads neither their input nor the first weight."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh())
        self.stem.requires_grad_(False)
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(3)))

    def forward(self, x):
        return self.body(self.stem(x))


class Shown(nn.Module):
    """Values between are handed out, too; backward does not need them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        shown = []
        for layer in self.layers:
            x = layer(x) * 2
            shown.append(x)
            x = torch.tanh(x + 1)
        return (x, *shown)


class Dropped(nn.Module):
    """What checkpoints of the user's hand out, and their backward passes read: results of activations, a view
    of one, two of one region of which one is made of the other, the result of an operator that has several.
    """

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def first(self, x):
        return torch.relu(self.layers[0](torch.sin(x)))

    def second(self, x):
        return torch.softmax(self.layers[1](x), -1).unflatten(-1, (8, 8))

    def third(self, x):
        shown = torch.sigmoid(self.layers[2](x))
        return shown, torch.tanh(shown)

    def fourth(self, x):
        values, _ = torch.var_mean(torch.exp(self.layers[3](x)), -1, keepdim=True)
        return torch.sqrt(values)

    def forward(self, x):
        a, b = checkpoint(self.first, x, use_reentrant=False), checkpoint(self.second, x, use_reentrant=False)
        c, d = checkpoint(self.third, x, use_reentrant=False)
        e = checkpoint(self.fourth, x, use_reentrant=False)
        return a + b.flatten(1) + c + d + e, a, b, c, d, e


class Kept(torch.autograd.Function):
    """Keeps a tensor on its context, where autograd does not look for changes."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * scale.cos()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale.exp(), None


class OnContext(nn.Module):
    """Custom functions whose backward reads a buffer as the caller leaves it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.register_buffer("scale", torch.linspace(0, 1, 64))

    def forward(self, x):
        for layer in self.layers:
            x = Kept.apply(torch.tanh(layer(x)), self.scale)
        return x


class Sliced(nn.Module):
    """Biases that are slices of one tensor; another name of the same memory."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(64, 64) / 8 for _ in range(4))
        self.register_buffer("all", torch.linspace(-1, 1, 256))
        self.register_buffer("other", self.all.data)

    def forward(self, x):
        for place, weight in enumerate(self.weights):
            bias = self.all[64 * place : 64 * (place + 1)] + self.other[:64]
            x = torch.tanh(x @ weight + bias * 2)
        return x


class Parametrized(nn.Module):
    """Spectral norm, which updates buffers in forward, and weight norm."""

    def __init__(self):
        super().__init__()
        make = (parametrizations.spectral_norm, parametrizations.weight_norm)
        self.layers = nn.ModuleList(make[place % 2](nn.Linear(64, 64)) for place in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Averaged(nn.Module):
    """Batch norms in evaluation: their statistics are read in backward."""

    def __init__(self):
        super().__init__()
        self.normed = Normed().eval()
        self.register_buffer("shift", torch.linspace(-1, 1, 64))

    def train(self, _mode=True):
        return self

    def forward(self, x):
        return torch.tanh(self.normed(x) + self.shift)


def floats():
    return (torch.randn(128, 64),)


def tokens():
    return torch.randint(50, (16, 16)), torch.randint(2, (16, 16))


def _biases(model, _inputs, _output):
    return [one for name, one in model.named_parameters() if name.endswith("bias")]


def _of(*names):
    return lambda model, _inputs, _output: [model.get_buffer(name) for name in names]


CASES = {
    "a buffer": (Shifted, floats, _of("center")),
    "statistics of inputs": (Shifted, floats, _of("mean")),
    "an input": (Shifted, floats, lambda _model, inputs, _output: [inputs[0]]),
    "biases": (Shifted, floats, _biases),
    "biases of batch norms": (Normed, floats, _biases),
    "running statistics": (
        Normed,
        floats,
        lambda model, *_: [one for one in model.buffers() if one.is_floating_point()],
    ),
    "a mask": (Attention, tokens, lambda _model, inputs, _output: [inputs[1]]),
    "embeddings": (
        Attention,
        tokens,
        lambda model, *_: [model.embed.weight, model.positions.weight],
    ),
    "frozen weights": (Frozen, floats, lambda model, *_: [model.stem[0].weight]),
    "the input of frozen layers": (Frozen, floats, lambda _model, inputs, _output: [inputs[0]]),
    "outputs": (Shown, floats, lambda _model, _inputs, output: list(output[1:])),
    "what is dropped": (Dropped, floats, lambda _model, _inputs, output: list(output[1:])),
    "what a context keeps": (OnContext, floats, _of("scale")),
    "slices": (Sliced, floats, _of("all")),
    "vectors of spectral norms": (Parametrized, floats, lambda model, *_: list(model.buffers())),
    "statistics in evaluation": (Averaged, floats, _of("normed.body.0.1.running_mean")),
    "weights": (Shifted, floats, lambda model, *_: [model.layers[2].weight]),
}
"""Per name: the model, its inputs, and what is changed."""
CHECKED = ("statistics in evaluation", "weights")
"""What backward reads itself: a change in place is an error in eager; of others PyTorch says nothing."""


def in_place(one):
    """As an optimizer or an average does."""
    with torch.no_grad():
        one.add_(1) if one.is_floating_point() else one.sub_(1).abs_()


def unseen(one):
    """As above, where no version check sees it."""
    one.data.add_(1) if one.is_floating_point() else one.data.sub_(1).abs_()


def swapped(one):
    """Other memory under the same name, and what was there overwritten."""
    old = one.data
    one.data = old + 1
    old.zero_()


CHANGES = {"in place": in_place, "unseen": unseen, "swapped": swapped}


def changes_of(case):
    """The changes of a case whose outcome PyTorch defines."""
    if case == "running statistics":
        # Eager checks a version of what it does not read.
        return {name: change for name, change in CHANGES.items() if name != "in place"}
    return {"in place": in_place} if case in CHECKED else CHANGES
