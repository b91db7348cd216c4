"""Thousands of small programs as the submodules of one trace, for equal_programs.rs.

    python tools/import/tests/programs.py COUNT SEED OUT.pt

Program `p7` is a random straight line over its own parameters. `p7_respelled` is the same line with other spellings: operands
commuted, views made another way, `linear` against `mm`. `p7_constant`, `p7_dtype`, `p7_stride`, `p7_random` and `p7_target`
each differ from `p7` in one thing that matters, in its tail, which is always read.
"""

import io
import random
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

SIDE = 4
CONSTANTS = (0.5, 1.5, -2.0)
MUTATIONS = ("constant", "dtype", "stride", "random", "target")


def flattened(x):
    return x.flatten().reshape(SIDE, SIDE)


# Per operator, its spellings. All of one operator are meant to be equal, or at least may be: what rk calls equal is
# checked by running it. x, y are squares, v is a row, c is a constant.
SPELLINGS = {
    "add": [lambda x, y, v, c: x + y, lambda x, y, v, c: y + x, lambda x, y, v, c: torch.add(x, y, alpha=1)],
    "add_scaled": [lambda x, y, v, c: torch.add(x, y, alpha=2), lambda x, y, v, c: x.add(y, alpha=2)],
    "mul": [lambda x, y, v, c: x * y, lambda x, y, v, c: y * x],
    "sub": [lambda x, y, v, c: x - y],
    "mm": [lambda x, y, v, c: x @ y, lambda x, y, v, c: torch.mm(x, y)],
    "linear": [
        lambda x, y, v, c: F.linear(x, y),
        lambda x, y, v, c: x @ y.t(),
        lambda x, y, v, c: torch.mm(x, y.transpose(0, 1)),
    ],
    "bias": [
        lambda x, y, v, c: F.linear(x, y, v),
        lambda x, y, v, c: torch.addmm(v, x, y.t()),
        lambda x, y, v, c: x @ y.t() + v,
    ],
    "transpose": [
        lambda x, y, v, c: x.t(),
        lambda x, y, v, c: x.transpose(-1, -2),
        lambda x, y, v, c: x.permute(1, 0),
    ],
    "transpose_twice": [lambda x, y, v, c: x.t().transpose(0, 1), lambda x, y, v, c: x.permute(1, 0).t()],
    "reshape": [
        lambda x, y, v, c: x.reshape(2, 2 * SIDE).reshape(SIDE, SIDE),
        lambda x, y, v, c: flattened(x),
        lambda x, y, v, c: x.reshape(-1).view(SIDE, SIDE),
    ],
    "expand": [
        lambda x, y, v, c: x * v.expand(SIDE, SIDE),
        lambda x, y, v, c: x * v.unsqueeze(0).expand(SIDE, -1),
        lambda x, y, v, c: x * v[None, :].expand_as(x),
    ],
    "softmax": [lambda x, y, v, c: torch.softmax(x, -1), lambda x, y, v, c: x.softmax(1)],
    "halves": [
        lambda x, y, v, c: torch.cat([x[:2], y[2:]], 0),
        lambda x, y, v, c: torch.cat([x.narrow(0, 0, 2), y[2:, :]], -2),
    ],
    "stack": [
        lambda x, y, v, c: torch.stack([x, y]).sum(0),
        lambda x, y, v, c: torch.cat([x.unsqueeze(0), y.unsqueeze(0)]).sum(dim=-3),
    ],
    "copy": [lambda x, y, v, c: (x * c).clone(), lambda x, y, v, c: x * c, lambda x, y, v, c: (x * c).contiguous()],
    "dropout_off": [
        lambda x, y, v, c: F.dropout(x, 0.0) * c,
        lambda x, y, v, c: F.dropout(x, 0.4, training=False) * c,
        lambda x, y, v, c: x * c,
    ],
    "dropout": [lambda x, y, v, c: F.dropout(x, 0.3)],
    "noise": [lambda x, y, v, c: x + torch.bernoulli(torch.sigmoid(y)), lambda x, y, v, c: torch.bernoulli(y.sigmoid()) + x],
    "detach": [lambda x, y, v, c: x * y.detach(), lambda x, y, v, c: y.detach() * x],
    "relu": [lambda x, y, v, c: torch.relu(x), lambda x, y, v, c: F.relu(x)],
    "in_place": [lambda x, y, v, c: (x + y).mul_(x), lambda x, y, v, c: (y + x).mul_(x)],
    "through_a_view": [lambda x, y, v, c: written(x * c, y), lambda x, y, v, c: written(c * x, y)],
    "power": [lambda x, y, v, c: x**2, lambda x, y, v, c: x.pow(2)],
    "tanh": [lambda x, y, v, c: torch.tanh(x)],
    "cast": [lambda x, y, v, c: (x.double() * c).float(), lambda x, y, v, c: (c * x.to(torch.float64)).float()],
    "norm": [lambda x, y, v, c: F.layer_norm(x, (SIDE,), v)],
    "where": [lambda x, y, v, c: torch.where(x == y, x, y * c), lambda x, y, v, c: torch.where(y == x, x, y * c)],
    "attention": [
        lambda x, y, v, c: F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None])[0, 0],
        lambda x, y, v, c: F.scaled_dot_product_attention(x.view(1, 1, SIDE, SIDE), y[None][None], y[None, None]).view(SIDE, SIDE),
    ],
}


def written(x, y):
    """Adds to the first row through a view of it."""
    x[0].add_(y[1])
    return x


class Program(nn.Module):
    """A straight line: each step is (operator, spelling, two earlier values, a constant)."""

    def __init__(self, steps, mutation=None):
        super().__init__()
        strided = torch.randn(SIDE, SIDE).t() if mutation == "stride" else torch.randn(SIDE, SIDE)
        self.first = nn.Parameter(strided)
        self.second = nn.Parameter(torch.randn(SIDE, SIDE))
        self.frozen = nn.Parameter(torch.randn(SIDE, SIDE), requires_grad=False)
        self.row = nn.Parameter(torch.randn(SIDE))
        self.steps, self.mutation = steps, mutation

    def forward(self):
        values = [self.first, self.second, self.frozen]
        for operator, spelling, x, y, constant in self.steps:
            values.append(SPELLINGS[operator][spelling](values[x], values[y], self.row, constant))
        last = values[-1]
        if self.mutation == "dtype":
            last = last.double()
        if self.mutation == "random":
            last = F.dropout(last, 0.3)
        one = last * (1.75 if self.mutation == "constant" else 1.25)
        other = self.first * 3.0 + 1.0
        if self.mutation == "target":
            one = one + 0.0
            other.mul_(one)
        else:
            other = other + 0.0
            one.mul_(other)
        return one, other, values[len(values) // 2] * 1.0


class Programs(nn.Module):
    """All of them. The input is not used: a trace wants one."""

    def __init__(self, programs):
        super().__init__()
        for name, program in programs:
            self.add_module(name, program)

    def forward(self, unused):
        return tuple(value for program in self.children() for value in program())


def straight_line(draw):
    steps = []
    for at in range(draw.randint(1, 4)):
        operator = draw.choice(list(SPELLINGS))
        x, y = draw.randrange(3 + at), draw.randrange(3 + at)
        steps.append((operator, draw.randrange(len(SPELLINGS[operator])), x, y, draw.choice(CONSTANTS)))
    return steps


def main():
    count, seed, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    draw = random.Random(seed)
    torch.manual_seed(seed)
    programs = []
    for at in range(count // 3):
        steps = straight_line(draw)
        respelled = [(operator, draw.randrange(len(SPELLINGS[operator])), x, y, c) for operator, _, x, y, c in steps]
        mutation = MUTATIONS[at % len(MUTATIONS)]
        programs += [
            (f"p{at}", Program(steps)),
            (f"p{at}_respelled", Program(respelled)),
            (f"p{at}_{mutation}", Program(steps, mutation)),
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Programs(programs), (torch.zeros(1),), check_trace=False)
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    with open(out, "wb") as file:
        file.write(buffer.getbuffer())


if __name__ == "__main__":
    main()
