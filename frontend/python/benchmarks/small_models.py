"""Networks of every kind, so small that Inductor compiles each of them in about a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.cells import gpt2, llama

Made = tuple[nn.Module, Any]


class Loss(nn.Module):
    """A network and a loss of its result, so that both are one graph."""

    def __init__(self, inner: nn.Module) -> None:
        """``inner`` takes one argument."""
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mean square of the result, or of its first part."""
        found = self.inner(x)
        found = getattr(found, "last_hidden_state", found)
        return found.float().square().mean()


class Autocast(Loss):
    """The same, computed in bfloat16 where PyTorch says so."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss."""
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


class Mlp(nn.Sequential):
    """Linear layers with batch norm and dropout."""

    def __init__(self, width: int = 64, layers: int = 4) -> None:
        """``layers`` are equal."""
        super().__init__()
        for _ in range(layers):
            self.extend([nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU(), nn.Dropout(0.2)])


class Unet(nn.Module):
    """Down and up again, with what was there before beside it."""

    def __init__(self, width: int = 8, depth: int = 2) -> None:
        """``width`` doubles with every level."""
        super().__init__()
        self.first = self._block(3, width)
        self.down = nn.ModuleList(self._block(width << one, width << one + 1) for one in range(depth))
        self.up = nn.ModuleList(self._block(3 * (width << one), width << one) for one in range(depth))
        self.last = nn.Conv2d(width, 1, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(inplace=True)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One value per pixel."""
        levels = [self.first(x)]
        for block in self.down:
            levels.append(block(nn.functional.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for block in reversed(self.up):
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, levels.pop()], 1))
        return self.last(x)


class Recurrent(nn.Module):
    """An LSTM cell in a loop over time."""

    def __init__(self, width: int = 64, times: int = 5) -> None:
        """The loop is unrolled by Dynamo."""
        super().__init__()
        self.times = times
        self.cell = nn.LSTMCell(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The results of every time."""
        state = (torch.zeros_like(x), torch.zeros_like(x))
        found = []
        for _ in range(self.times):
            state = self.cell(x, state)
            found.append(self.out(state[0]))
        return torch.stack(found)


def _images(batch: int = 4, size: int = 32) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def _torchvision(name: str, **about: Any) -> Made:
    import torchvision

    return Loss(getattr(torchvision.models, name)(num_classes=10, **about)), _images()


def _vit() -> Made:
    from torchvision.models import VisionTransformer

    return Loss(VisionTransformer(32, 8, 2, 2, 64, 128, num_classes=10, dropout=0.1)), _images()


def _convnext() -> Made:
    import timm

    about = {"depths": (1, 1, 1, 1), "dims": (8, 16, 16, 32), "num_classes": 10}
    return Loss(timm.models.convnext.ConvNeXt(**about)), _images(size=64)


def _swin() -> Made:
    from torchvision.models import SwinTransformer

    about = {"patch_size": [2, 2], "embed_dim": 32, "depths": [2], "num_heads": [2], "window_size": [4, 4]}
    return Loss(SwinTransformer(**about, num_classes=10, stochastic_depth_prob=0.0)), _images()


def _bert() -> Made:
    from transformers import BertConfig, BertModel

    about = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    return Loss(BertModel(BertConfig(vocab_size=500, **about))), torch.randint(0, 500, (4, 64))


def _t5() -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    about = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_heads": 4, "use_cache": False}
    model = T5ForConditionalGeneration(T5Config(vocab_size=500, decoder_start_token_id=0, **about))
    words = torch.randint(0, 500, (4, 32))
    return model, {"input_ids": words, "labels": words.flip(1)}


MODELS: dict[str, Callable[[], Made]] = {
    "mlp": lambda: (Loss(Mlp()), torch.randn(512, 64)),
    "llama": lambda: llama(layers=2, batch=2, length=128),
    "gpt2": lambda: gpt2(layers=2, batch=2, length=128),
    "gpt2-bf16": lambda: (Autocast(gpt2(layers=2)[0]), torch.randint(0, 1000, (2, 128))),
    "bert": _bert,
    "t5": _t5,
    "vit": _vit,
    "swin": _swin,
    "convnext": _convnext,
    "unet": lambda: (Loss(Unet()), _images()),
    "resnet18": lambda: _torchvision("resnet18"),
    "mobilenet": lambda: _torchvision("mobilenet_v3_small"),
    "lstm": lambda: (Loss(Recurrent()), torch.randn(256, 64)),
}
