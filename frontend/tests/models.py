"""Writes small traced archives for the tests: `models.py FOLDER [NAME...]`, without names all of them.

Each function makes (model, sample inputs); its name is the name of the archive. Weights come from a fixed seed.
Models named `bad_*` must be refused by the importer, with the reason that its test names.
"""

import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")


class Fn(nn.Module):
    """A model from a function of (self, inputs...) and some named parts."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4)), torch.randn(4, 8)


def resnet18():
    import torchvision

    return torchvision.models.resnet18(num_classes=10), torch.randn(2, 3, 32, 32)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=100, use_cache=False)
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids).logits

    return Logits(), torch.randint(0, 100, (2, 16))


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50)
    model = BertModel(config)

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            out = self.model(input_ids, attention_mask=attention_mask)
            return {"hidden": out.last_hidden_state, "pooled": out.pooler_output}

    return Hidden(), (torch.randint(0, 50, (2, 8)), torch.ones(2, 8, dtype=torch.long))


def lstm():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.lstm = nn.LSTM(8, 8, num_layers=2, dropout=0.2, batch_first=True)
            self.head = nn.Linear(8, 20)

        def forward(self, tokens):
            hidden, (h, c) = self.lstm(self.embed(tokens))
            return self.head(hidden), (h, c)

    return Language(), torch.randint(0, 20, (2, 5))


def gru():
    return nn.GRU(4, 6, bidirectional=True), torch.randn(5, 2, 4)


def dropout_difference():
    return Fn(lambda self, x: self.drop(self.fc(x)) - self.drop(self.fc(x)), fc=nn.Linear(8, 8), drop=nn.Dropout(0.5)), torch.randn(4, 8)


def dropout_zero():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4)), torch.randn(2, 4)


def slices():
    def f(self, a, b):
        h = self.fc(a).clone()
        h[:, 0] = 0
        h[:, 1:3] *= torch.sigmoid(b[:, 1:3])
        h[:, 3] += self.fc(b)[:, 0]
        return h

    return Fn(f, fc=nn.Linear(4, 4)), (torch.randn(3, 4), torch.randn(3, 4))


def in_place_product():
    # Autograd saves a clone of the left factor before it is overwritten.
    def f(self, x):
        h = self.fc(x)
        gate = torch.tanh(self.gate(x))
        h = h + 1
        h.mul_(gate)
        h.div_(gate.exp())
        return h.pow_(2)

    return Fn(f, fc=nn.Linear(4, 4), gate=nn.Linear(4, 4)), torch.randn(3, 4)


def tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight
            self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
            self.register_buffer("whole", torch.ones(8))
            self.register_buffer("part", self.whole[:4])

        def forward(self, tokens):
            h = self.embed(tokens) * self.frozen + self.whole
            logits = self.head(h)
            return {"logits": logits, "part": self.part * 2}, (logits, [self.frozen, h])

    return Tied(), torch.randint(0, 11, (2, 5))


def transformer():
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, src, tgt):
            mask = nn.Transformer.generate_square_subsequent_mask(5)
            return self.model(src, tgt, tgt_mask=mask)

    return Masked(), (torch.randn(2, 6, 16), torch.randn(2, 5, 16))


def bf16():
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).bfloat16(), torch.randn(2, 8).bfloat16()


def mixed_types():
    def f(self, x, index, flag):
        h = self.fc(x).double()[index]
        h = torch.where(flag, h, h.float().half().double() * 3)
        return h.float(), index + 1, (h > 0)

    inputs = (torch.randn(4, 4), torch.randint(0, 4, (3,)), torch.tensor([True, False, True, True]))
    return Fn(f, fc=nn.Linear(4, 4)), inputs


def batch_norms():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.GroupNorm(2, 4), nn.BatchNorm2d(4, momentum=None, affine=False), nn.Flatten(), nn.Linear(4 * 36, 8), nn.BatchNorm1d(8),
    ), torch.randn(4, 3, 8, 8)


def batch_norm_eval():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model[1].eval()
    return model, torch.randn(2, 3, 8, 8)


def unet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.mid = nn.Conv2d(8, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.out = nn.Conv2d(16, 2, 1)

        def forward(self, image):
            d = self.down(image)
            m = F.silu(self.mid(F.max_pool2d(d, 2)))
            u = self.up(m) + F.interpolate(m, scale_factor=2.0, mode="bilinear", align_corners=False)
            return self.out(torch.cat([u, d], 1))

    return Net(), torch.randn(2, 3, 8, 8)


def views():
    def f(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(2, 4, 2, 4).transpose(1, 2) for t in (q, k, v))
        w = (q @ k.transpose(-2, -1)) / 2.0
        w = w.masked_fill(torch.triu(torch.ones(4, 4, dtype=torch.bool), 1), float("-inf")).softmax(-1)
        y = (w @ v).permute(0, 2, 1, 3).flatten(2)
        first, rest = y.split([1, 3], dim=1)
        return torch.stack([first.expand(2, 3, 8), rest.flip(1).roll(1, 1)]).unbind(0)

    return Fn(f, qkv=nn.Linear(8, 24)), torch.randn(2, 4, 8)


def attention():
    def f(self, x):
        y = F.scaled_dot_product_attention(self.q(x).unsqueeze(1), self.k(x).unsqueeze(1), x.unsqueeze(1), is_causal=True)
        return self.mha(x, x, x, need_weights=True)[0] + y.squeeze(1)

    return Fn(f, q=nn.Linear(16, 16), k=nn.Linear(16, 16), mha=nn.MultiheadAttention(16, 2, 0.1, batch_first=True)), torch.randn(2, 8, 16)


def indexing():
    def f(self, x, index):
        h = self.fc(x)
        h = h.clone()
        h[index] = h[index] * 2
        h = h.scatter_add(0, index.unsqueeze(1).expand(3, 4), torch.ones(3, 4))
        return h.gather(1, (index % 4).view(1, 3).expand(4, 3)), h.cumsum(0).sort(1)[0], torch.einsum("ij,kj->ik", h, h)

    return Fn(f, fc=nn.Linear(4, 4)), (torch.randn(4, 4), torch.tensor([0, 2, 3]))


def nested_inputs():
    def f(self, pair, table):
        a, b = pair
        return self.fc(a) + b * table["x"] - table["y"]

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, pair, table):
            return f(self, pair, table)

    return Nested(), ((torch.randn(2, 4), torch.randn(2, 4)), {"x": torch.randn(4), "y": torch.randn(2, 4)})


def argument_names():
    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            self.input = nn.Linear(4, 4)

        def forward(self, input, self_, a, b):
            return self.input(input) * a + b - self_

    return Names(), tuple(torch.randn(2, 4) for _ in range(4))


def shape_arithmetic():
    def f(self, x):
        n = x.size(0) * x.size(1) // 2
        scale = torch.tensor(x.shape[-1]).sqrt()
        return self.fc(x).reshape(n, -1) / scale + x.size(-1) ** -0.5

    return Fn(f, fc=nn.Linear(4, 4)), torch.randn(2, 4, 4)


def random_ops():
    def f(self, x):
        h = self.fc(x)
        h = h + torch.randn_like(h) * 0.1 + torch.rand(4, 4)
        h = F.rrelu(h, training=True)
        return h * torch.bernoulli(torch.full((4, 4), 0.5)), F.alpha_dropout(h, 0.3, True)

    return Fn(f, fc=nn.Linear(4, 4)), torch.randn(4, 4)


def returns_input():
    return Fn(lambda self, x: (x, self.w, self.w * x, x[0]), w=nn.Parameter(torch.randn(3))), torch.randn(2, 3)


def unused_parameter():
    return Fn(lambda self, x: self.a(x), a=nn.Linear(3, 3), b=nn.Linear(3, 3)), torch.randn(2, 3)


def counter():
    def f(self, x):
        self.count.add_(1)
        self.mean.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        return self.fc(x) * self.mean

    return Fn(f, fc=nn.Linear(3, 3), count=torch.zeros((), dtype=torch.long), mean=torch.zeros(3)), torch.randn(2, 3)


def fft():
    return Fn(lambda self, x: torch.fft.irfft(torch.fft.rfft(self.fc(x)) * 2, n=8), fc=nn.Linear(8, 8)), torch.randn(2, 8)


def transposed_in_place():
    def f(self, x):
        h = self.fc(x) * 1
        h.t_()
        h.unsqueeze_(0)
        return h.relu_()

    return Fn(f, fc=nn.Linear(4, 3)), torch.randn(2, 4)


def shared_module():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.again = self.layer

        def forward(self, x):
            return self.again(torch.relu(self.layer(x)))

    return Twice(), torch.randn(2, 4)


@torch.jit.script
def alternate(x, n: int):
    out = []
    for i in range(n):
        if i % 2 == 0:
            x = torch.tanh(x)
        else:
            x = x * 2
        out.append(x)
    return torch.stack(out).sum(0)


def scripted_parts():
    return Fn(lambda self, x: alternate(self.fc(x), 3), fc=nn.Linear(4, 4)), torch.randn(2, 4)


def changes_its_input():
    return Fn(lambda self, x: self.fc(x.add_(1)), fc=nn.Linear(4, 4)), torch.randn(2, 4)


def scalar_parameter():
    return Fn(lambda self, x: (self.scale * x, x.argmax(1)), scale=nn.Parameter(torch.ones(()))), torch.randn(2, 4)


def spectrum(self, x):
    """`istft` reads on the host whether its window lets anything through."""
    there = torch.stft(self.fc(x), 16, 4, window=self.window, return_complex=True)
    return torch.istft(there * 2, 16, 4, window=self.window, length=64)


def window_in_a_buffer():
    return Fn(spectrum, fc=nn.Linear(64, 64), window=torch.hann_window(16)), torch.randn(2, 64)


def window_in_the_trace():
    window = torch.hann_window(16)

    def f(self, x):
        return torch.istft(torch.stft(self.fc(x), 16, 4, window=window, return_complex=True), 16, 4, window=window)

    return Fn(f, fc=nn.Linear(64, 64)), torch.randn(2, 64)


def rows_of_a_buffer():
    def f(self, x):
        return self.fc(x)[:, (self.rows > 0).nonzero()[:, 0]] * self.rows.max()

    return Fn(f, fc=nn.Linear(4, 3), rows=torch.tensor([1.0, -1.0, 2.0])), torch.randn(2, 4)


def bad_window():
    return Fn(spectrum, fc=nn.Linear(64, 64), window=nn.Parameter(torch.hann_window(16))), torch.randn(2, 64)


def bad_written_later():
    def f(self, x):
        chosen = self.fc(x)[:, (self.rows > 0).nonzero()[:, 0]]
        self.rows.add_(1)
        return chosen

    return Fn(f, fc=nn.Linear(4, 3), rows=torch.tensor([1.0, -1.0, 2.0])), torch.randn(2, 4)


def bad_written_before():
    def f(self, x):
        positive = self.rows > 0
        self.rows.add_(1)
        return self.fc(x)[:, positive.nonzero()[:, 0]]

    return Fn(f, fc=nn.Linear(4, 3), rows=torch.tensor([1.0, -1.0, 2.0])), torch.randn(2, 4)


def bad_nonzero():
    return Fn(lambda self, x: self.fc(x)[x > 0], fc=nn.Linear(3, 3)), torch.randn(2, 3)


def bad_item():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            n = x.abs().sum().long()
            return self.fc(x).sum() + torch.arange(n).sum()

    return Counted(), torch.randn(2, 3)


def bad_sparse():
    return nn.Sequential(nn.Embedding(5, 3, sparse=True)), torch.randint(0, 5, (2,))


def bad_float8():
    return Fn(lambda self, x: self.fc(x).to(torch.float8_e4m3fn).float(), fc=nn.Linear(3, 3)), torch.randn(2, 3)


def main():
    folder, *names = sys.argv[1:]
    own = [name for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__"]
    for name in names or [name for name in own if name not in ("Fn", "main", "spectrum")]:
        torch.manual_seed(0)
        model, inputs = globals()[name]()
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        traced = torch.jit.trace(model if name == "batch_norm_eval" else model.train(), inputs, check_trace=False, strict=False)
        traced.save(f"{folder}/{name}.pt")
        torch.save(inputs, f"{folder}/{name}.inputs.pt")


main()
