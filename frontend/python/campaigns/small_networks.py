"""The networks of ``examples/models.py``, adapters, and the hard places of the tests, as small as they go.

``NETWORKS`` maps a name to a function that gives a module and its inputs. Dropout stays on.
"""

# The methods of networks are what they are called.
# ruff: noqa: D102, D107
from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(_ROOT / "examples"), str(_ROOT / "frontend/python/tests")]

import models  # noqa: E402
import saved_views  # noqa: E402
import test_bits  # noqa: E402
import test_hard_places as hard  # noqa: E402
import test_more_hard_places as harder  # noqa: E402
import test_program  # noqa: E402

Network = tuple[nn.Module, tuple[Any, ...]]


def _images(batch: int, side: int) -> tuple[torch.Tensor]:
    return (torch.randn(batch, 3, side, side),)


def _tokens(words: int, *shape: int) -> tuple[torch.Tensor]:
    return (torch.randint(words, shape),)


def _resnet(block: str) -> Network:
    from torchvision.models import resnet

    return resnet.ResNet(getattr(resnet, block), [1, 1, 1, 1], num_classes=5), _images(4, 32)


def _vgg() -> Network:
    from torchvision.models.vgg import make_layers

    features = make_layers([4, "M", 8, 8, "M"])
    head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 16), nn.ReLU(True), nn.Dropout(), nn.Linear(16, 5))
    return nn.Sequential(features, head), _images(2, 16)


def _densenet() -> Network:
    from torchvision.models import DenseNet

    return DenseNet(4, (2, 2), 8, bn_size=2, drop_rate=0.1, num_classes=5), _images(4, 32)


def _inception() -> Network:
    from torchvision.models.inception import BasicConv2d, InceptionA, InceptionC

    layers = BasicConv2d(3, 8, kernel_size=3), InceptionA(8, 4), InceptionC(228, 4)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 5)), _images(2, 12)


def _mobilenet() -> Network:
    from torchvision.models import MobileNetV2

    settings = [[1, 8, 1, 1], [2, 8, 2, 2]]
    return MobileNetV2(num_classes=5, width_mult=0.25, inverted_residual_setting=settings), _images(4, 32)


def _regnet() -> Network:
    from torchvision.models.regnet import BlockParams, RegNet

    return RegNet(BlockParams.from_init_params(4, 16, 8.0, 2.0, 8, 0.25), num_classes=5), _images(4, 32)


def _vit() -> Network:
    from torchvision.models import VisionTransformer

    return VisionTransformer(16, 8, 2, 2, 16, 32, dropout=0.1, num_classes=5), _images(2, 16)


def _gpt2(attention: str, layers: int = 2) -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=20, n_positions=8, n_embd=16, n_layer=layers, n_head=2, use_cache=False)
    config._attn_implementation = attention
    return models.Logits(GPT2LMHeadModel(config), "logits"), _tokens(20, 2, 8)


def _bert(attention: str) -> Network:
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 8}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**sizes, **layers, attn_implementation=attention)
    return models.Logits(BertModel(config), "last_hidden_state"), _tokens(20, 2, 8)


def _llama() -> Network:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, use_cache=False)
    return models.Logits(LlamaForCausalLM(config), "logits"), _tokens(20, 2, 8)


def _mixer() -> Network:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(5, 16, patch_size=8, num_blocks=2, embed_dim=16, proj_drop_rate=0.1), _images(2, 16)


class LowRank(nn.Module):
    """A frozen linear layer and a trained product of two narrow ones beside it (Hu et al., 2021)."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(self.drop(x)))


def _adapted(network: Network) -> Network:
    """Every linear layer of a frozen network gets an adapter."""
    model, inputs = network
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(parent, LowRank):
                setattr(parent, name, LowRank(child))
    return model, inputs


class SharedAttention(nn.Module):
    """Attention whose result is saved by itself and as two views, one of them for an adapter."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.qkv, self.base = nn.Linear(width, 3 * width), nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)
        self.register_buffer("mask", (torch.rand(2, 8, width) > 0.3).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return torch.sin(self.base(y) + self.up(self.down(y * self.mask)))


class Rotary(nn.Module):
    """Rotary embedding by slices and by complex numbers, on keys that several queries share."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype)[:, None] / torch.arange(1, 3, dtype=x.dtype)
        q = self.q(x).view(*x.shape[:2], 4, 4).transpose(1, 2)
        k, v = self.kv(x).view(*x.shape[:2], 2, 2, 4).permute(3, 0, 2, 1, 4)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        left, right = k.chunk(2, -1)
        k = torch.cat(
            [left * steps.cos() - right * steps.sin(), left * steps.sin() + right * steps.cos()], -1
        )
        q = torch.view_as_complex(q.reshape(*q.shape[:-1], 2, 2)) * torch.polar(torch.ones_like(steps), steps)
        q = torch.view_as_real(q).flatten(3)
        return ((q @ k.mT) / math.sqrt(4)).softmax(-1) @ v


class OfViews(nn.Module):
    """A program of ``saved_views`` as a module."""

    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        self.program = program
        self.a, self.b = (nn.Parameter(one.detach()) for one in saved_views.arguments(torch.float32)[1:])

    def forward(self, x: torch.Tensor) -> Any:
        return self.program(x, self.a, self.b)


def _of_views(name: str) -> Network:
    return OfViews(saved_views.CASES[name]), (saved_views.arguments(torch.float32)[0].detach(),)


def _floats(make: Callable[[], nn.Module], *shape: int) -> Callable[[], Network]:
    return lambda: (make(), (torch.randn(*shape),))


NETWORKS: dict[str, Callable[[], Network]] = {
    "resnet18": lambda: _resnet("BasicBlock"),
    "resnet50": lambda: _resnet("Bottleneck"),
    "vgg11": _vgg,
    "densenet121": _densenet,
    "inception_v3": _inception,
    "mobilenet_v2": _mobilenet,
    "regnet_x_400mf": _regnet,
    "vit_b_16": _vit,
    "gpt2_4": lambda: _gpt2("eager"),
    "gpt2_12": lambda: _gpt2("sdpa", 4),
    "bert": lambda: _bert("eager"),
    "bert, sdpa": lambda: _bert("sdpa"),
    "transformer_encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        (torch.randn(2, 8, 16),),
    ),
    "transformer": lambda: (
        nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
        (torch.randn(2, 6, 16), torch.randn(2, 5, 16)),
    ),
    "lstm": lambda: (models.LanguageModel(20, 8), _tokens(20, 2, 4)),
    "unet": lambda: (models.UNet((4, 8), 2), _images(2, 8)),
    "mlp_mixer": _mixer,
    "llama": _llama,
    "gpt2, adapters": lambda: _adapted(_gpt2("sdpa")),
    "llama, adapters": lambda: _adapted(_llama()),
    "bert, adapters": lambda: _adapted(_bert("sdpa")),
    "shared attention": _floats(SharedAttention, 2, 8, 16),
    "rotary": _floats(Rotary, 2, 8, 16),
    "dropout": _floats(lambda: hard.Chain(lambda: nn.Dropout(0.4), width=16), 16, 16),
    "rrelu": _floats(lambda: hard.Chain(nn.RReLU, width=16), 16, 16),
    "norm": _floats(hard.Normed, 4, 4, 12, 12),
    "norm twice": _floats(hard.TwiceNormed, 4, 4, 12, 12),
    "tied": lambda: (hard.Tied(), _tokens(50, 8, 16)),
    "in place": _floats(hard.InPlace, 64, 64),
    "buffers": _floats(lambda: hard.Counting(torch.clone), 64, 64),
    "mixed": _floats(test_bits.Mixed, 16, 3, 8, 8),
    "several": _floats(lambda: test_program.Several(width=16), 16, 16),
    "checkpoints": _floats(harder.Checkpointed, 16, 32),
    "checkpoints, products kept": _floats(lambda: harder.Checkpointed(harder.keep_products), 16, 32),
    **{f"views: {name}": (lambda name=name: _of_views(name)) for name in saved_views.CASES},
}
