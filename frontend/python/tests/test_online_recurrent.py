"""PyTorch's recurrent layers under a memory budget, packed or not, with lengths that vary: eager's bits."""

from __future__ import annotations

import pytest
import torch
from online_models import Meter
from test_online import equal, train
from torch import nn

import rk

ROWS, LONGEST = 32, 14
# What PyTorch reads on the host: the lengths and batch sizes of a packed sequence.
ON_THE_HOST = 8 * (ROWS + LONGEST)


class Recurrent(nn.Module):
    """One layer or more over sequences of any length, packed if ``lengths`` are used."""

    def __init__(self, kind, packed, **options):
        super().__init__()
        self.rnn = kind(16, 32, **options)
        self.packed = packed

    def forward(self, x):
        if self.packed:
            lengths = torch.arange(ROWS) * 5 % len(x) + 1
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0].square().mean()
        return self.rnn(x)[0].square().mean()


def lengths(step):
    """A batch of sequences, of another length at every step."""
    return torch.randn(LONGEST - step * 3 % 7, ROWS, 16, generator=torch.Generator().manual_seed(step))


SHAPES = [
    {"packed": False, "num_layers": 1},
    {"packed": False, "num_layers": 2},
    {"packed": True, "num_layers": 1},
    {"packed": True, "num_layers": 1, "bidirectional": True},
    {"packed": True, "num_layers": 2, "dropout": 0.2},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(f"{k}_{v}" for k, v in shape.items()))
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_layers_of_pytorch_train_at_60_and_40_percent(kind, shape):
    def make():
        return Recurrent(kind, **shape)

    eager = Meter()
    expected = train(make, lengths, meter=eager, steps=3)
    for share in (0.6, 0.4):
        budget, meter = int(eager.peak * share), Meter()
        context = rk.memory_budget(budget)
        assert equal(train(make, lengths, context, meter=meter, steps=3), expected), share
        assert context.statistics()["recomputations"] > 0
        assert meter.peak <= budget + meter.largest + shape["packed"] * ON_THE_HOST, share


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_results_that_are_turned_in_place(kind):
    def make():
        return Recurrent(kind, packed=False, batch_first=True)

    eager, meter = Meter(), Meter()
    expected = train(make, lengths, meter=eager, steps=3)
    context = rk.memory_budget(int(eager.peak * 0.75))
    assert equal(train(make, lengths, context, meter=meter, steps=3), expected)
    assert meter.peak <= int(eager.peak * 0.75) + meter.largest


def bits(tensors):
    """Zeros with their signs."""
    return [rk.decheckpoint(t).detach().clone().view(torch.int32) for t in tensors]


def test_gradients_of_slices_add_up_to_the_bits_of_eager():
    def run():
        x = torch.linspace(-1, 1, 48).reshape(8, 6).requires_grad_()
        signs = torch.tensor([0.0, -0.0, 1.0, -1.0, -0.0, 0.0])
        h, kept = x * 1, []
        h.register_hook(lambda g: kept.append(g * 1))
        total = 0
        for row in range(7):
            # Somebody looks at the gradient of a slice, and of a slice of it.
            part = h[row]
            part.register_hook(lambda g: kept.append(g))
            total = total - (part * signs).sum() + (h[row : row + 2] * -signs).sum()
        total = total + h[-1].sum() - (h[:, 1] * -0.0).sum() + (h[:, ::2] * 0.5).sum() + (h[3:1] * 2).sum()
        # The same gradient goes two ways, and is added to on one of them.
        left, right = h[:4], h[4:]
        both = left + right
        total = total + (both * both).sum() + (left * right).sum() + h.narrow(1, -3, 2).sum()
        total.backward()
        return [x.grad, *kept]

    expected = bits(run())
    for budget in (None, 1_500):
        with rk.memory_budget(budget):
            found = run()
        assert equal(bits(found), expected)


@pytest.mark.parametrize(("early", "late"), [(2, 6), (6, 2)])
def test_a_negative_zero_beside_a_slice_becomes_positive(early, late):
    def run():
        x = torch.ones(8, 6, requires_grad=True)
        h = x * 1
        first = h[early].sum()
        # The later one's gradient comes first.
        (first + (h[late] * -0.0).sum()).backward()
        return [x.grad]

    expected = bits(run())
    assert not expected[0][late].any(), "no sign is left"
    with rk.memory_budget(None):
        found = run()
    assert equal(bits(found), expected)


def test_gradients_of_slices_are_made_when_somebody_reads_them():
    class Counts(Meter):
        full = 0

        def _add(self, storage):
            self.full += storage.nbytes() == x.nbytes
            super()._add(storage)

    x = torch.ones(64, 1000, requires_grad=True)
    meter = Counts()
    with meter, rk.memory_budget(None):
        h = x * 2
        sum((h[row] * row).sum() for row in range(64)).backward()
    assert torch.equal(x.grad, 2 * torch.arange(64.0)[:, None].expand(64, 1000))
    assert meter.full <= 4, "the product, its gradient and that of x: eager makes one for each row"


def test_a_gradient_that_the_user_holds_is_not_added_to():
    def run():
        x = torch.linspace(-1, 1, 256, requires_grad=True)
        h, kept = x * 2, []
        other = h * 3
        # Its gradient is handed on as it is, and is the first of two.
        same = h + 0.0
        same.register_hook(lambda g: kept.append(g))
        (other.sum() + (same * same).sum()).backward()
        return [x.grad, *kept]

    expected = bits(run())
    with rk.memory_budget(None):
        found = run()
    assert equal(bits(found), expected)


def test_a_sum_of_the_user_is_never_the_measure_of_what_nobody_else_holds(monkeypatch):
    from rk._online.sums import Sums

    budget = rk.memory_budget(None)
    assert Sums.alone is not None
    monkeypatch.setattr(Sums, "alone", None)
    with budget:
        x = torch.ones(4, requires_grad=True) * 2
        (x[:2].sum() + x[2:].sum()).backward()
    assert Sums.alone is None
