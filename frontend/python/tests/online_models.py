"""Models whose graph changes at every step, and a count of memory that knows nothing of rk."""

from __future__ import annotations

import weakref

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Lstm(nn.Module):
    """An LSTM as PyTorch has it, over sequences of any length."""

    def __init__(self):
        super().__init__()
        # One layer's workspace is one buffer, so that a few layers are needed for budgets to make a
        # difference.
        self.rnn = nn.LSTM(16, 32, 4, dropout=0.3)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0]).square().mean()


class Gru(nn.Module):
    """A GRU as it is written down, over sequences of any length, with dropout between its layers."""

    def __init__(self, width=16, state=32):
        super().__init__()
        self.state = state
        sizes = [(width, state), (state, state)]
        self.x = nn.ModuleList(nn.Linear(size, 3 * state) for size, _ in sizes)
        self.h = nn.ModuleList(nn.Linear(state, 3 * state) for _ in sizes)

    def forward(self, x):
        states = [torch.zeros(x.shape[1], self.state) for _ in self.x]
        total = 0
        for step in x:
            for layer, (to_x, to_h) in enumerate(zip(self.x, self.h, strict=True)):
                reset, update, new = to_x(step).chunk(3, 1)
                reset_h, update_h, new_h = to_h(states[layer]).chunk(3, 1)
                update = torch.sigmoid(update + update_h)
                new = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
                states[layer] = step = new + update * (states[layer] - new)
                step = nn.functional.dropout(step, 0.2)
            total = total + step.square().mean()
        return total


class FusedGru(nn.Module):
    """A GRU as PyTorch has it, which writes in place to parts of its gates, and batch norm with running
    statistics.
    """

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 32, 2, dropout=0.3)
        self.head = nn.Linear(32, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        x = nn.functional.dropout(self.head(self.rnn(x)[0]), 0.2)
        return self.norm(x.flatten(0, 1)).pow(3).mean()


class TreeLstm(nn.Module):
    """The cell of DTR's benchmark over binary trees: nested pairs, leaves are inputs. The sum is in place."""

    def __init__(self, width=16, state=32):
        super().__init__()
        self.state = state
        self.gates_x, self.gates_h = nn.Linear(width, 3 * state), nn.Linear(state, 3 * state, bias=False)
        self.forget_x, self.forget_h = nn.Linear(width, state), nn.Linear(state, state, bias=False)

    def cell(self, x, children):
        h = sum((child[0] for child in children), torch.zeros(x.shape[0], self.state))
        i, o, u = (self.gates_x(x) + self.gates_h(h)).chunk(3, 1)
        c = i.sigmoid() * u.tanh()
        forget = self.forget_x(x)
        for child in children:
            c += torch.sigmoid(forget * self.forget_h(child[0])) * child[1]
        return o.sigmoid() * c.tanh(), c

    def walk(self, tree):
        x, *children = tree
        return self.cell(x, [self.walk(child) for child in children])

    def forward(self, tree):
        return self.walk(tree)[1].sum()


class Experts(nn.Module):
    """A mixture of experts: which rows an expert sees depends on the data."""

    def __init__(self, width=32, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(experts)
        )

    def forward(self, x):
        for _ in range(3):
            weights = self.gate(x).softmax(-1)
            best = weights.argmax(-1)
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                rows = (best == number).nonzero().squeeze(-1)
                if rows.numel():
                    out[rows] = expert(x[rows]) * weights[rows, number, None]
            x = x + nn.functional.dropout(out, 0.1)
        return x.square().mean()


def gpt2():
    """A small GPT-2 with dropout, as transformers has it."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=3, n_head=2, n_embd=32, vocab_size=64, n_positions=64, bos_token_id=1, eos_token_id=1
    )
    model = GPT2LMHeadModel(config)
    model.train()
    return _Loss(model)


class _Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def sequences(step):
    """A batch of sequences, of another length at every step."""
    return torch.randn(8 + step % 7, 32, 16, generator=torch.Generator().manual_seed(step))


def trees(step):
    """A random tree."""
    generator = torch.Generator().manual_seed(step)

    def grow(depth):
        children = (
            [grow(depth - 1) for _ in range(2)] if depth and torch.rand((), generator=generator) < 0.9 else []
        )
        return [torch.randn(32, 16, generator=generator), *children]

    return grow(3)


def rows(step):
    """Rows for a mixture of experts, so many that gradients are not what fills the memory."""
    return torch.randn(160 + step % 5, 32, generator=torch.Generator().manual_seed(step))


def tokens(step):
    """Tokens for GPT-2."""
    return torch.randint(64, (2, 32 + step % 4), generator=torch.Generator().manual_seed(step))


class Meter(TorchDispatchMode):
    """Counts the bytes of storages that operators make, as long as they live. Entered first, it sees what rk
    runs.
    """

    def __init__(self):
        super().__init__()
        self.now = self.peak = self.largest = 0
        self.sizes = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [args, list((kwargs or {}).values())]
        known = {t.untyped_storage()._cdata for t in self._tensors(given)}
        # aten.set_ is given the storage itself.
        known |= {one._cdata for one in args if isinstance(one, torch.UntypedStorage)}
        result = func(*args, **(kwargs or {}))
        before = self.now
        for tensor in self._tensors(result):
            storage = tensor.untyped_storage()
            if storage._cdata not in known and storage._cdata not in self.sizes:
                self._add(storage)
        self.largest = max(self.largest, self.now - before)
        return result

    def _add(self, storage):
        key, size = storage._cdata, storage.nbytes()
        self.sizes[key] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key):
        self.now -= self.sizes.pop(key)

    def _tensors(self, tree):
        if isinstance(tree, torch.Tensor):
            return self._parts(tree)
        return [t for item in tree for t in self._tensors(item)] if isinstance(tree, (list, tuple)) else []

    def _parts(self, tensor):
        """The tensors with memory that one consists of."""
        if tensor.device.type == "meta" or tensor._is_zerotensor():
            return []
        if tensor.layout is torch.strided or tensor.is_nested:
            return [tensor]
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
        return []
