"""Pieces as networks have them: attention, convolutions, recurrence, embeddings."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from campaigns.pieces.registry import piece


@piece("attention", weight=3, how=("plain", "causal", "dropout", "mask", "bool", "explicit", "grouped"))
class Attention(nn.Module):
    """Rows as short sequences that attend to themselves."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        self.qkv, self.out = nn.Linear(width // 4, 3 * width // 4), nn.Linear(width // 4, width // 4)
        self.register_buffer("mask", (torch.ones(4, 4).tril() if how == "bool" else torch.zeros(4, 4)) > 0)
        self.register_buffer("bias", torch.linspace(-1, 1, 16).reshape(4, 4))

    def forward(self, x):
        q, k, v = self.qkv(x.unflatten(1, (4, -1))).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        if self.how == "explicit":
            y = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.bias).softmax(-1) @ v
        elif self.how == "grouped":
            y = functional.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)
        else:
            mask = {"mask": self.bias, "bool": self.mask}.get(self.how)
            rate = 0.2 if self.how == "dropout" else 0.0
            y = functional.scaled_dot_product_attention(q, k, v, mask, rate, is_causal=self.how == "causal")
        return x + self.out(y.transpose(1, 2).flatten(2)).flatten(1)


@piece("attention", rate=(0.0, 0.2))
class MultiHead(nn.Module):
    """PyTorch's own module for it."""

    def __init__(self, width, rate):
        super().__init__()
        self.attention = nn.MultiheadAttention(width // 4, 2, dropout=rate, batch_first=True)

    def forward(self, x):
        y = x.unflatten(1, (4, -1))
        return x + self.attention(y, y, y, need_weights=False)[0].flatten(1)


@piece("attention")
class EncoderLayer(nn.Module):
    """A transformer's layer."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width // 4, 2, 32, 0.1, batch_first=True, norm_first=True)

    def forward(self, x):
        return self.layer(x.unflatten(1, (4, -1))).flatten(1)


@piece("complex", weight=2)
def rotary(x):
    pairs = torch.view_as_complex(x.float().unflatten(1, (-1, 2)).contiguous())
    turn = torch.polar(torch.ones(pairs.shape[1]), torch.arange(pairs.shape[1]) * 0.3)
    return torch.view_as_real(pairs * turn).flatten(1).to(x.dtype)


@piece("complex", weight=3, how=("fft", "rfft", "abs", "angle", "conj", "real", "fft2", "multiply", "hfft"))
def spectrum(x, how):
    if x.dtype is torch.bfloat16:
        return x
    if how == "fft":
        return torch.fft.ifft(torch.fft.fft(x) * 0.5).real
    if how == "rfft":
        return torch.fft.irfft(torch.fft.rfft(x) * (1 + 0.5j), n=x.shape[1])
    if how == "abs":
        return torch.fft.fft(x).abs().log1p()
    if how == "angle":
        return torch.complex(x, x.flip(1) + 2).angle()
    if how == "conj":
        z = torch.complex(x, x.sin())
        return (z.conj() * z).real.tanh()
    if how == "real":
        z = torch.complex(x, x.cos())
        return z.real * z.imag
    if how == "fft2":
        return torch.fft.fft2(x).imag.tanh()
    if how == "hfft":
        return torch.fft.hfft(x, n=x.shape[1]).tanh()
    return torch.exp(1j * x).real


@piece(
    "convolution",
    weight=3,
    how=("plain", "depthwise", "strided", "dilated", "transposed", "one", "channels_last"),
)
class Convolution(nn.Module):
    """Rows as small images."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        more = {
            "depthwise": {"groups": 4},
            "dilated": {"dilation": 2, "padding": 2},
            "one": {"padding": 0},
        }.get(how, {})
        kernel = 1 if how == "one" else 3
        if how == "transposed":
            self.conv = nn.ConvTranspose2d(4, 4, 3, padding=1)
        else:
            self.conv = nn.Conv2d(
                4, 4, kernel, **{"padding": 1, "stride": 2 if how == "strided" else 1, **more}
            )

    def forward(self, x):
        image = x.unflatten(1, (4, 2, -1))
        if self.how == "channels_last":
            image = image.to(memory_format=torch.channels_last)
        y = self.conv(image)
        if self.how == "strided":
            y = functional.interpolate(y, size=image.shape[2:])
        return torch.tanh(y).reshape_as(x) + x


@piece(
    "convolution",
    weight=2,
    how=(
        "conv1d",
        "max_pool",
        "avg_pool",
        "adaptive",
        "max_indices",
        "bilinear",
        "shuffle",
        "reflect",
        "fold",
        "lp_pool",
    ),
)
def image(x, how):
    y = x.unflatten(1, (4, -1))
    if how == "conv1d":
        return functional.conv1d(y, y[:1, :, :3], padding=1).tanh().expand(-1, 4, -1).flatten(1)
    if how == "max_pool":
        return functional.max_pool1d(y, 3, 1, 1).flatten(1)
    if how == "avg_pool":
        return functional.avg_pool1d(y, 3, 1, 1).flatten(1)
    if how == "adaptive":
        return (y - functional.adaptive_avg_pool1d(y, 1)).flatten(1)
    if how == "lp_pool":
        return x + functional.lp_pool1d(y.abs() + 0.1, 2, 2).mean((1, 2))[:, None]
    if how == "max_indices":
        values, places = functional.max_pool1d(y, 2, return_indices=True)
        return functional.max_unpool1d(values, places, 2).flatten(1)
    if how == "bilinear":
        return functional.interpolate(y[:, :, ::2], size=y.shape[2], mode="linear").flatten(1)
    if how == "shuffle":
        return functional.pixel_shuffle(x.unflatten(1, (4, 2, -1)), 2).flatten(1)
    if how == "reflect":
        return functional.pad(y, (1, 1), mode="reflect")[:, :, 1:-1].flatten(1).sin()
    parts = functional.unfold(x.unflatten(1, (1, 4, -1)), 2, stride=2)
    return functional.fold(parts.tanh(), (4, y.shape[2]), 2, stride=2).flatten(1)


@piece("recurrent", weight=2, cell=("LSTMCell", "GRUCell", "RNNCell"))
class Cell(nn.Module):
    """A recurrent cell, written out as a loop."""

    def __init__(self, width, cell):
        super().__init__()
        self.cell = getattr(nn, cell)(width // 4, width // 4)

    def forward(self, x):
        state, outputs = None, []
        for step in x.unflatten(1, (4, -1)).unbind(1):
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, 1).flatten(1)


@piece("recurrent", kind=("GRU", "LSTM", "RNN"), layers=(1, 2))
class Recurrent(nn.Module):
    """A recurrent layer of PyTorch's."""

    def __init__(self, width, kind, layers):
        super().__init__()
        self.layer = getattr(nn, kind)(width // 4, width // 4, layers, batch_first=True)

    def forward(self, x):
        return self.layer(x.unflatten(1, (4, -1)))[0].flatten(1)


@piece("embedding", weight=3, how=("plain", "padding", "scaled", "sparse", "max_norm", "bag", "one_hot"))
class Embedded(nn.Module):
    """Looks up what the rows' largest places say."""

    def __init__(self, width, how):
        super().__init__()
        self.how = how
        more = {
            "padding": {"padding_idx": 0},
            "scaled": {"scale_grad_by_freq": True},
            "sparse": {"sparse": True},
        }
        more["max_norm"] = {"max_norm": 1.0}
        if how == "bag":
            self.table = nn.EmbeddingBag(width, width, mode="mean")
        else:
            self.table = nn.Embedding(width, width, **more.get(how, {}))

    def forward(self, x):
        words = x.detach().argmax(1)
        if self.how == "bag":
            return x + self.table(x.detach().topk(3, 1).indices)
        if self.how == "one_hot":
            return x + functional.one_hot(words, x.shape[1]).to(x.dtype) @ self.table.weight
        return x + self.table(words)


@piece("attention")
class Positions(nn.Module):
    """Learned positions and a causal mask that is made inside."""

    def __init__(self, width):
        super().__init__()
        self.positions = nn.Embedding(4, width // 4)

    def forward(self, x):
        y = x.unflatten(1, (4, -1)) + self.positions(torch.arange(4))
        causal = torch.full((4, 4), float("-inf"), dtype=y.dtype).triu(1)
        return (torch.softmax(y @ y.transpose(1, 2) + causal, -1) @ y).flatten(1).tanh()
