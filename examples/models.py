"""The networks that the demo and the benchmarks run on, each as a torch.jit.trace archive.

    .venv/bin/python examples/models.py --list
    .venv/bin/python examples/models.py resnet18 resnet18.pt          # the archive
    .venv/bin/python examples/models.py resnet18 --time-eager 7       # median seconds of an eager training step

Random weights from a fixed seed, train mode, sizes that a small CPU machine can run, or with `--list --large` a GPU. Nothing is downloaded.
Dropout stays on: a compiler that recomputes must reproduce the masks, so models without randomness prove little.
"""

import argparse
import io
import os
import statistics
import sys
import time
import warnings

# The libraries look for a model hub when imported; everything here is built from a configuration instead.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED = 0


class Logits(nn.Module):
    """A transformers model with a plain signature: token ids in, one tensor out."""

    def __init__(self, model, output):
        super().__init__()
        self.model, self.output = model, output

    def forward(self, input_ids):
        return getattr(self.model(input_ids=input_ids), self.output)


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers with dropout between them, and a projection to the vocabulary."""

    def __init__(self, words=1000, width=128):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        hidden, _ = self.lstm(self.drop(self.embed(ids)))
        return self.head(self.drop(hidden))


def double_convolution(inputs, outputs):
    """What every level of a U-Net does twice: convolution, batch norm, in-place ReLU."""
    layers = []
    for source in (inputs, outputs):
        layers += [nn.Conv2d(source, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels with skip connections (Ronneberger et al., 2015, with padding and batch norm)."""

    def __init__(self, widths=(16, 32, 64, 128), classes=4):
        super().__init__()
        self.down = nn.ModuleList(double_convolution(i, o) for i, o in zip((3,) + widths[:-1], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(double_convolution(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, image):
        skips = []
        for level, block in enumerate(self.down):
            image = block(image if level == 0 else nn.functional.max_pool2d(image, 2))
            skips.append(image)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            image = merge(torch.cat([skips.pop(), up(image)], 1))
        return self.head(image)


def vision(name, batch, side, **options):
    """A torchvision network, and a batch of square images."""
    import torchvision

    model = getattr(torchvision.models, name)(weights=None, **options)
    return model, (torch.randn(batch, 3, side, side),)


def gpt2(layers):
    """GPT-2 with its usual dropout of 0.1, narrow enough for a small machine."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=1000, n_positions=128, n_embd=192, n_layer=layers, n_head=6, use_cache=False, attn_implementation="eager"
    )
    return Logits(GPT2LMHeadModel(config), "logits"), (torch.randint(0, 1000, (4, 64)),)


def gpt2_medium(batch, length):
    """GPT-2 medium as it was trained, with the attention that transformers takes by itself."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False)
    return Logits(GPT2LMHeadModel(config), "logits"), (torch.randint(0, config.vocab_size, (batch, length)),)


def llama_1b(batch, length):
    """A decoder in the style of Llama with 1.1 billion parameters (the sizes of TinyLlama)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        use_cache=False,
    )
    return Logits(LlamaForCausalLM(config), "logits"), (torch.randint(0, config.vocab_size, (batch, length)),)


def bert():
    """A four-layer BERT encoder with dropout."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=768,
        max_position_embeddings=128,
        attn_implementation="eager",
    )
    return Logits(BertModel(config), "last_hidden_state"), (torch.randint(0, 1000, (4, 64)),)


def transformer_encoder():
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), (torch.randn(4, 64, 128),)


def transformer():
    model = nn.Transformer(128, 4, 2, 2, 512, dropout=0.1, batch_first=True)
    return model, (torch.randn(4, 32, 128), torch.randn(4, 24, 128))


def mlp_mixer():
    from timm.models.mlp_mixer import MlpMixer

    model = MlpMixer(num_classes=10, img_size=64, patch_size=8, num_blocks=4, embed_dim=128, proj_drop_rate=0.1)
    return model, (torch.randn(4, 3, 64, 64),)


# inception_v3 needs 75 pixels, but its auxiliary head close to 299: it goes without. vit_b_16 has 224 pixels built in.
MODELS = {
    "resnet18": lambda: vision("resnet18", 8, 64),
    "resnet50": lambda: vision("resnet50", 4, 64),
    "vgg11": lambda: vision("vgg11", 4, 64),
    "densenet121": lambda: vision("densenet121", 4, 64),
    "inception_v3": lambda: vision("inception_v3", 4, 96, init_weights=False, aux_logits=False),
    "mobilenet_v2": lambda: vision("mobilenet_v2", 8, 64),
    "regnet_x_400mf": lambda: vision("regnet_x_400mf", 8, 64),
    "vit_b_16": lambda: vision("vit_b_16", 2, 224, dropout=0.1),
    "gpt2_4": lambda: gpt2(4),
    "gpt2_12": lambda: gpt2(12),
    "bert": bert,
    "transformer_encoder": transformer_encoder,
    "transformer": transformer,
    "lstm": lambda: (LanguageModel(), (torch.randint(0, 1000, (8, 32)),)),
    "unet": lambda: (UNet(), (torch.randn(4, 3, 64, 64),)),
    "mlp_mixer": mlp_mixer,
}

# Sizes for a GPU.
LARGE = {
    "resnet50_64": lambda: vision("resnet50", 64, 224),
    "vit_b_16_64": lambda: vision("vit_b_16", 64, 224),
    "gpt2_medium_4": lambda: gpt2_medium(4, 512),
    "gpt2_medium_8": lambda: gpt2_medium(8, 500),
    "llama_1b_4": lambda: llama_1b(4, 512),
}


def build(name):
    """The network in train mode and its example inputs, the same every time."""
    torch.manual_seed(SEED)
    model, inputs = (MODELS | LARGE)[name]()
    return model.train(), inputs


def write_archive(name, path, device):
    """Traces the network on `device` into `path`; the file appears whole or not at all."""
    model, inputs = build(name)
    # A trace keeps the device that tensors were made on in forward (positions, masks).
    model, inputs = model.to(device), tuple(value.to(device) for value in inputs)
    with warnings.catch_warnings():
        # Tracing warns that it is deprecated and that shapes become constants. The first is known, the second intended.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, inputs, check_trace=False, strict=False)
    # Through a buffer: an archive that torch saves to a path carries that path's name inside, and would differ by it.
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(buffer.getbuffer())
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def tensors(value):
    """The floating-point tensors in a nest of tuples, lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    values = value.values() if isinstance(value, dict) else value
    return [tensor for inner in values for tensor in tensors(inner)]


def time_eager(name, repeats):
    """Median seconds of forward, summed loss and backward in eager PyTorch, after two steps of warm-up."""
    model, inputs = build(name)
    seconds = []
    for step in range(repeats + 2):
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        sum(output.sum() for output in tensors(model(*inputs))).backward()
        if step >= 2:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description="Writes a network as a torch.jit.trace archive, or times it.")
    parser.add_argument("name", nargs="?", choices=[*MODELS, *LARGE], metavar="NAME", help="one of the names that --list prints")
    parser.add_argument("out", nargs="?", metavar="OUT.pt", help="where the archive goes")
    parser.add_argument("--list", action="store_true", help="print the names, one per line")
    parser.add_argument("--large", action="store_true", help="with --list: the networks whose sizes need a GPU")
    parser.add_argument("--device", default="cpu", help="where it is traced: cpu (the default), cuda or cuda:N")
    parser.add_argument("--time-eager", type=int, metavar="N", help="print the median seconds of N eager training steps")
    options = parser.parse_args()
    if options.list:
        print("\n".join(LARGE if options.large else MODELS))
    elif options.name and options.time_eager and options.time_eager > 0:
        print(f"{time_eager(options.name, options.time_eager):.6f}")
    elif options.name and options.out:
        try:
            write_archive(options.name, options.out, options.device)
        except OSError as error:
            sys.exit(f"models.py: error: cannot write {options.out}: {error}")
    else:
        parser.error("nothing to do: give NAME OUT.pt, NAME --time-eager N, or --list")


if __name__ == "__main__":
    main()
