"""Writes the traced archives of tests/models.rs: `models.py FOLDER MODEL...`. Small, from a fixed seed, in training mode."""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")


class Block(nn.Module):
    """A residual block as in ResNet-18: two convolutions with batch norm, and a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + self.shortcut(x), inplace=True)


def mlp():
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(32, 8)), torch.randn(16, 32)


def resnet():
    stem = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    blocks = [Block(8, 8, 1), Block(8, 8, 1), Block(8, 8, 1), Block(8, 16, 2)]
    return nn.Sequential(*stem, *blocks, *head), torch.randn(4, 3, 16, 16)


def gpt2(dropout=0.0):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=64, use_cache=False)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout
    config._attn_implementation = "eager"

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = GPT2LMHeadModel(config)

        def forward(self, ids):
            return self.model(ids).logits

    return Logits(), torch.randint(0, 64, (2, 12))


def gpt2_dropout():
    return gpt2(0.1)


class Overlap(nn.Module):
    """Two inputs, for which one tensor may be given."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x, y):
        return self.linear(x) * y


def overlap():
    torch.save((same := torch.randn(8, 16), same), f"{sys.argv[1]}/same.pt")
    return Overlap(), (torch.randn(8, 16), torch.randn(8, 16))


def masks():
    layers = [layer for _ in range(5) for layer in (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1))]
    return nn.Sequential(*layers), torch.randn(512, 64)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(32, 96)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (part.reshape(batch, length, 2, 16).transpose(1, 2) for part in self.heads(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=0.2)
        return x + y.transpose(1, 2).reshape(batch, length, width)


def attention():
    layers = [layer for _ in range(3) for layer in (Attention(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32))]
    return nn.Sequential(*layers), torch.randn(2, 24, 32)


def dropout():
    return nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 8)), torch.randn(16, 32)


for name in sys.argv[2:]:
    build = globals()[name]
    torch.manual_seed(0)
    model, inputs = build()
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    traced = torch.jit.trace(model.train(), inputs, check_trace=False, strict=False)
    traced.save(f"{sys.argv[1]}/{build.__name__}.pt")
