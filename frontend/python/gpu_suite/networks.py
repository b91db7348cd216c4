"""The networks of the suite, each returning its loss, so that everything but the optimizer is in one step.

Random weights from a fixed seed, built where they are needed; nothing is downloaded.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import contextlib  # noqa: E402
import dataclasses  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

SEED = 0
BLOCKS = {"Bottleneck", "BasicBlock", "EncoderBlock", "GPT2Block", "LlamaDecoderLayer", "ResidualBlock"}
"""Around which ``torch.utils.checkpoint`` is put, by the names of their classes."""


class LanguageModel(nn.Module):
    """A decoder of transformers with its loss: predicts the token after each token."""

    def __init__(self, model: nn.Module) -> None:
        """``model`` returns logits."""
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy."""
        logits = self.model(input_ids=ids).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


class SumOfLogits(nn.Module):
    """A decoder of transformers that returns its logits: the caller adds them up."""

    def __init__(self, model: nn.Module) -> None:
        """``model`` returns logits."""
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self.model(input_ids=ids).logits


class Classifier(nn.Module):
    """A network for images with its loss."""

    def __init__(self, model: nn.Module) -> None:
        """``model`` returns one score for each class."""
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy."""
        return functional.cross_entropy(self.model(images).float(), labels)


class ResidualBlock(nn.Module):
    """A block of a diffusion model's U-Net: convolutions with the time between, attention if asked."""

    def __init__(self, inputs: int, outputs: int, time: int, attention: bool) -> None:
        """Channels that come in and go out, the width of the time's embedding."""
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.qkv = nn.Conv2d(outputs, 3 * outputs, 1) if attention else None
        self.norm3, self.out = nn.GroupNorm(8, outputs), nn.Conv2d(outputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        inner = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        x = self.skip(x) + self.conv2(
            functional.dropout(functional.silu(self.norm2(inner)), 0.1, self.training)
        )
        if self.qkv is None:
            return x
        batch, channels, height, width = x.shape
        heads = self.qkv(self.norm3(x)).view(batch, 3, channels // 32, 32, height * width)
        query, key, value = heads.transpose(3, 4).contiguous().unbind(1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(mixed.transpose(2, 3).reshape(batch, channels, height, width))


class Diffusion(nn.Module):
    """A U-Net in the style of diffusion models (Ho et al., 2020), and the loss of its noise."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 384, 512)) -> None:
        """One level for each width; attention in all but the first."""
        super().__init__()
        time = 4 * widths[0]
        self.embed = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        before = widths[0]
        for level, width in enumerate(widths):
            parts = [ResidualBlock(i, width, time, level > 0) for i in (before, width)]
            self.down.append(nn.ModuleList(parts))
            last = level == len(widths) - 1
            self.shrink.append(nn.Identity() if last else nn.Conv2d(width, width, 3, 2, 1))
            before = width
        self.middle = ResidualBlock(before, before, time, True)
        self.up = nn.ModuleList()
        for level, width in reversed(list(enumerate(widths))):
            self.up.append(ResidualBlock(before + width, width, time, level > 0))
            before = width
        self.leave = nn.Conv2d(before, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, time: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The mean squared error."""
        when, x, skips = self.embed(time[:, None]), self.enter(image + noise), []
        for parts, shrink in zip(self.down, self.shrink, strict=True):
            for part in parts:
                x = part(x, when)
            skips.append(x)
            x = shrink(x)
        x = self.middle(x, when)
        for level, part in enumerate(self.up):
            if level:
                x = functional.interpolate(x, scale_factor=2.0)
            x = part(torch.cat([x, skips.pop()], 1), when)
        return functional.mse_loss(self.leave(x), noise)


def _images(model: nn.Module, batch: int, side: int, classes: int = 1000) -> tuple[nn.Module, list[Any]]:
    return Classifier(model), [torch.randn(batch, 3, side, side), torch.randint(0, classes, (batch,))]


def mlp(width: int, batch: int, layers: int = 8) -> tuple[nn.Module, list[Any]]:
    """Linear layers with GELU and dropout."""
    parts = [nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)) for _ in range(layers)]
    return _Scored(nn.Sequential(*parts)), [torch.randn(batch, width)]


class _Scored(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).square().mean()


def gpt2(wrap: Any, batch: int, length: int, **sizes: int) -> tuple[nn.Module, list[Any]]:
    """GPT-2 with its usual dropout of 0.1."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False, **sizes)
    return wrap(GPT2LMHeadModel(config)), [torch.randint(0, config.vocab_size, (batch, length))]


def llama(batch: int, length: int, **sizes: int) -> tuple[nn.Module, list[Any]]:
    """A decoder in the style of Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(use_cache=False, **sizes)
    return LanguageModel(LlamaForCausalLM(config)), [torch.randint(0, config.vocab_size, (batch, length))]


def vision(name: str, batch: int, side: int, **options: Any) -> tuple[nn.Module, list[Any]]:
    """A network of torchvision on square images."""
    import torchvision

    return _images(getattr(torchvision.models, name)(weights=None, **options), batch, side)


def diffusion(batch: int, side: int, widths: tuple[int, ...]) -> tuple[nn.Module, list[Any]]:
    """The U-Net on noisy images."""
    image = [torch.randn(batch, 3, side, side), torch.rand(batch), torch.randn(batch, 3, side, side)]
    return Diffusion(widths), image


@dataclasses.dataclass(frozen=True)
class Network:
    """How one is made, at its size and in miniature."""

    make: Callable[[], tuple[nn.Module, list[Any]]]
    small: Callable[[], tuple[nn.Module, list[Any]]]
    weights: torch.dtype = torch.float32
    strict: bool = True
    """Whether PyTorch has deterministic kernels for all of it."""
    effort: float = 1.0
    """What compiling it takes, beside GPT-2 small."""


_SMALL_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 32}
_MEDIUM = {"n_embd": 1024, "n_layer": 24, "n_head": 16}
_LLAMA_1B = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
}
_SMALL_LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
NETWORKS = {
    "mlp": Network(lambda: mlp(2048, 4096), lambda: mlp(32, 64, 4), effort=0.3),
    "resnet18": Network(
        lambda: vision("resnet18", 64, 224), lambda: vision("resnet18", 2, 32), strict=False, effort=0.6
    ),
    "gpt2": Network(lambda: gpt2(LanguageModel, 8, 512), lambda: gpt2(LanguageModel, 2, 32, **_SMALL_GPT2)),
    "gpt2_medium": Network(
        lambda: gpt2(LanguageModel, 4, 512, **_MEDIUM),
        lambda: gpt2(LanguageModel, 2, 32, **_SMALL_GPT2),
        effort=2.0,
    ),
    "gpt2_medium_logits": Network(
        lambda: gpt2(SumOfLogits, 4, 512, **_MEDIUM),
        lambda: gpt2(SumOfLogits, 2, 32, **_SMALL_GPT2),
        effort=2.0,
    ),
    "gpt2_medium_8": Network(
        lambda: gpt2(LanguageModel, 8, 500, **_MEDIUM),
        lambda: gpt2(LanguageModel, 3, 25, **_SMALL_GPT2),
        effort=2.0,
    ),
    "llama_1b": Network(
        lambda: llama(2, 2048, **_LLAMA_1B),
        lambda: llama(2, 16, **_SMALL_LLAMA),
        weights=torch.bfloat16,
        effort=2.0,
    ),
    "resnet50": Network(
        lambda: vision("resnet50", 64, 224), lambda: vision("resnet50", 2, 32), strict=False, effort=1.5
    ),
    "vit_b_16": Network(
        lambda: vision("vit_b_16", 64, 224),
        lambda: _small_vit(),
        effort=1.0,
    ),
    "unet": Network(
        lambda: diffusion(32, 64, (128, 256, 384, 512)), lambda: diffusion(2, 16, (32, 64)), effort=1.5
    ),
}


def _small_vit() -> tuple[nn.Module, list[Any]]:
    from torchvision.models.vision_transformer import VisionTransformer

    sizes = {
        "image_size": 32,
        "patch_size": 8,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 32,
        "mlp_dim": 64,
    }
    return _images(VisionTransformer(**sizes), 2, 32)


def build(name: str, device: torch.device, small: bool) -> tuple[nn.Module, list[Any]]:
    """The network in train mode and its inputs on a device, the same every time."""
    network = NETWORKS[name]
    torch.manual_seed(SEED)
    with torch.device(device):
        model, inputs = network.small() if small else network.make()
    return model.to(network.weights).train(), inputs


def checkpoint_blocks(model: nn.Module) -> nn.Module:
    """Puts ``torch.utils.checkpoint`` around every block."""
    from torch.utils.checkpoint import checkpoint

    blocks = [module for module in model.modules() if type(module).__name__ in BLOCKS]
    if not blocks:
        raise ValueError("this network has no blocks that are known")
    for block in blocks:
        inner = block.forward
        block.forward = lambda *args, _inner=inner, **more: checkpoint(
            _inner, *args, use_reentrant=False, **more
        )
    return model


def precision(device: torch.device, mixed: bool) -> Any:
    """The context that a step runs in."""
    return torch.autocast(device.type, torch.bfloat16) if mixed else contextlib.nullcontext()
