"""Networks that repeat themselves, for what `rk-opt --rk-anonymize` finds; each as a torch.jit.trace archive.

    .venv/bin/python examples/repeated.py gpt2-24 gpt2-24.pt           # any depth; --list prints the names
    .venv/bin/python examples/repeated.py gpt2-8-styled out.pt         # every other layer written in another style

A *styled* network computes the same as its plain twin, and every other block is written as somebody else would have: the
residual sum with its operands exchanged, heads split by other view operators, products spelled `linear`, `matmul` or
`addmm`, negative dimensions, permutations for transpositions. Random weights from a fixed seed, sizes for a small machine, nothing is downloaded.
"""

import argparse
import functools
import io
import sys
import types
import warnings

import models  # sets the libraries to offline
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Causal self-attention, by itself in two styles."""

    def __init__(self, width, heads, styled):
        super().__init__()
        self.heads, self.styled = heads, styled
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.ones(64, 64).tril().bool())

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        if self.styled:
            flat = torch.addmm(self.joint.bias, x.reshape(-1, width), self.joint.weight.transpose(0, 1))
            parts = flat.view(batch, length, 3 * width).chunk(3, dim=2)
            q, k, v = (part.unflatten(-1, (self.heads, size)).permute(0, 2, 1, 3) for part in parts)
            scores = torch.matmul(q, k.permute(0, 1, 3, 2)) * size**-0.5
            weights = self.drop(torch.where(self.mask[:length, :length], scores, -1e9).softmax(3))
            mixed = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().flatten(2)
            return F.linear(mixed, self.out.weight, self.out.bias)
        parts = self.joint(x).split(width, dim=-1)
        q, k, v = (part.view(batch, length, self.heads, size).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-2, -1)) * size**-0.5
        weights = self.drop(F.softmax(torch.where(self.mask[:length, :length], scores, -1e9), dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width, heads, styled):
        super().__init__()
        self.styled = styled
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, styled)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        if self.styled:
            x = self.attention(self.norm1(x)) + x
            hidden = F.gelu(self.up(self.norm2(x))).flatten(0, 1)
            return torch.addmm(self.down.bias, hidden, self.down.weight.t()).unflatten(0, x.shape[:2]) + x
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Embedding, layers, head: a GPT-2 whose every other layer may be styled."""

    def __init__(self, layers, styled, width=192, heads=6, words=1000):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, styled and at % 2 == 1) for at in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def bottleneck(styled, self, x):
    """torchvision's Bottleneck with nothing in place; the residual sum in one order or the other."""
    out = torch.relu(self.bn1(self.conv1(x)))
    out = torch.relu(self.bn2(self.conv2(out)))
    out = self.bn3(self.conv3(out))
    identity = x if self.downsample is None else self.downsample(x)
    return torch.relu(identity + out if styled else out + identity)


def mixer_block_in_another_style(self, x):
    """timm's MixerBlock with its transpositions spelled otherwise. Its sums are of two layouts: the first operand decides."""
    x = x + self.drop_path(self.mlp_tokens(self.norm1(x).permute(0, 2, 1)).permute(0, 2, 1))
    return x + self.drop_path(self.mlp_channels(self.norm2(x)))


def restyle(model, kind, forward, every):
    """Every module, or every other one, of a class gets another forward."""
    blocks = [module for module in model.modules() if type(module).__name__ == kind]
    for block in blocks if every else blocks[1::2]:
        block.forward = types.MethodType(forward, block)


def resnet(blocks, styled):
    """A torchvision ResNet of bottlenecks; `blocks` per level."""
    from torchvision.models.resnet import Bottleneck, ResNet

    model = ResNet(Bottleneck, blocks)
    restyle(model, "Bottleneck", functools.partial(bottleneck, False), every=True)
    if styled:
        restyle(model, "Bottleneck", functools.partial(bottleneck, True), every=False)
    return model, (torch.randn(2, 3, 64, 64),)


def mixer(depth, styled):
    from timm.models.mlp_mixer import MlpMixer

    model = MlpMixer(num_classes=10, img_size=64, patch_size=8, num_blocks=depth, embed_dim=64, proj_drop_rate=0.1)
    if styled:
        restyle(model, "MixerBlock", mixer_block_in_another_style, every=False)
    return model, (torch.randn(2, 3, 64, 64),)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=500, d_model=64, d_kv=16, d_ff=128, num_layers=4, num_heads=4, use_cache=False)
    config.decoder_start_token_id = 0

    class Pair(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, source, target):
            return self.model(input_ids=source, decoder_input_ids=target).logits

    return Pair(T5ForConditionalGeneration(config)), (torch.randint(0, 500, (2, 16)), torch.randint(0, 500, (2, 12)))


def bert(layers):
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}
    model = BertModel(BertConfig(num_hidden_layers=layers, attn_implementation="eager", **sizes))
    return models.Logits(model, "last_hidden_state"), (torch.randint(0, 500, (2, 32)),)


def vit(layers):
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, layers, 4, 64, 128, dropout=0.1), (torch.randn(2, 3, 32, 32),)


def regnet(blocks):
    """A RegNet in the proportions of torchvision's regnet_x_400mf, which has 22 blocks."""
    from torchvision.models.regnet import BlockParams, RegNet

    params = BlockParams.from_init_params(depth=blocks, w_0=24, w_a=24.48 * 22 / blocks, w_m=2.54, group_width=16)
    return RegNet(params, num_classes=10), (torch.randn(4, 3, 64, 64),)


def gpt2_as_trained(width, layers, heads, batch, length=512):
    """GPT-2 with its own vocabulary, widths and dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=width, n_layer=layers, n_head=heads, use_cache=False, attn_implementation="eager")
    return models.Logits(GPT2LMHeadModel(config), "logits"), (torch.randint(0, config.vocab_size, (batch, length)),)


def mixer_b16(batch):
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(num_blocks=12, embed_dim=768), (torch.randn(batch, 3, 224, 224),)


def transformer_base(batch, length):
    """nn.Transformer as it is built without arguments: six layers on each side, 512 wide."""
    words = (torch.randn(batch, length, 512), torch.randn(batch, length, 512))
    return nn.Transformer(batch_first=True), words


# torchvision's, at the sizes that fit a small machine.
VISION = {
    "resnet101": (2, 64),
    "regnet_x_32gf": (1, 64),
    "densenet121": (2, 64),
    "convnext_tiny": (1, 64),
    "swin_t": (1, 64),
    "efficientnet_b0": (2, 64),
    "mobilenet_v3_large": (2, 64),
    "googlenet": (2, 64),
}
OTHERS = {
    "unet": lambda: models.MODELS["unet"](),
    "transformer": lambda: models.MODELS["transformer"](),
    "lstm": lambda: models.MODELS["lstm"](),
    "t5": t5,
    # With pictures and batches at which activations weigh more than what a kernel needs while it runs.
    "resnet101-128": lambda: models.vision("resnet101", 8, 128),
    "regnet_x_32gf-128": lambda: models.vision("regnet_x_32gf", 4, 128),
}
# At the sizes of Rockmate's paper: tracing takes gigabytes and minutes.
FULL = {
    "gpt2-medium": lambda: gpt2_as_trained(1024, 24, 16, batch=4),
    "gpt2-large": lambda: gpt2_as_trained(1280, 36, 20, batch=2),
    "resnet101-224": lambda: models.vision("resnet101", 16, 224),
    "regnet_x_32gf-224": lambda: models.vision("regnet_x_32gf", 8, 224),
    "mixer-b16": lambda: mixer_b16(16),
    "transformer-base": lambda: transformer_base(16, 128),
}
# By name and depth; those that have two styles take `styled` too.
BY_DEPTH = {
    "gpt2": models.gpt2,
    "bert": bert,
    "vit": vit,
    "transformer": lambda depth, styled=False: (Transformer(depth, styled), (torch.randint(0, 1000, (2, 64)),)),
    "mixer": lambda depth, styled=False: mixer(depth, styled),
    # 9 n + 2 layers: 111 blocks per level are ResNet-1001.
    "resnet": lambda depth, styled=False: resnet([(depth - 2) // 9] * 3 + [1], styled),
    "bottlenecks": lambda depth, styled=False: resnet([3, 4, depth, 3], styled),
    "regnet": regnet,
}


def build(name):
    """The network in train mode and its example inputs, the same every time."""
    torch.manual_seed(models.SEED)
    if name in VISION:
        batch, side = VISION[name]
        options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        model, inputs = models.vision(name, batch, side, **options)
    elif name in OTHERS | FULL:
        model, inputs = (OTHERS | FULL)[name]()
    else:
        family, *rest = name.split("-")
        if family not in BY_DEPTH or not rest or not rest[0].isdigit() or rest[1:] not in ([], ["styled"]):
            sys.exit(f"repeated.py: error: there is no network '{name}'; --list prints the names")
        make = functools.partial(BY_DEPTH[family], int(rest[0]))
        model, inputs = make(styled=True) if len(rest) == 2 else make()
    return model.train(), inputs


def main():
    parser = argparse.ArgumentParser(description="Writes a network that repeats itself as a torch.jit.trace archive.")
    parser.add_argument("name", nargs="?", help="such as gpt2-24 or bottlenecks-23-styled")
    parser.add_argument("out", nargs="?", metavar="OUT.pt")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*VISION, *OTHERS, *FULL, *(f"{name}-DEPTH" for name in BY_DEPTH)]))
        return
    if not options.out:
        parser.error("give NAME OUT.pt, or --list")
    model, inputs = build(options.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated and makes shapes constant: known, and intended
        traced = torch.jit.trace(model, inputs, check_trace=False, strict=False)
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    with open(options.out, "wb") as file:
        file.write(buffer.getbuffer())


if __name__ == "__main__":
    main()
