"""The online runtime: the same bits as eager PyTorch within the budget, and nothing left behind."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import pickle
import sys

import pytest
import torch
from online_models import Experts, FusedGru, Gru, Lstm, Meter, TreeLstm, gpt2, rows, sequences, tokens, trees
from torch import nn
from torch.utils.checkpoint import checkpoint

import rk

MODELS = {
    "lstm": (Lstm, sequences),
    "gru": (Gru, sequences),
    "fused_gru": (FusedGru, sequences),
    "tree": (TreeLstm, trees),
    "experts": (Experts, rows),
    "gpt2": (gpt2, tokens),
}


def train(make, data, context=None, steps=20, meter=None, inside=False):
    """Losses, gradients, weights and buffers after some steps from the same seed."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(1)
    kept = []

    def step(x):
        loss = model(x)
        loss.backward()
        if inside:
            optimizer.step()
        return loss

    for turn in range(steps):
        x = data(turn)
        optimizer.zero_grad()
        with meter or torch.enable_grad():
            if context is None:
                loss = step(x)
            else:
                with context:
                    loss = step(x)
        if not inside:
            optimizer.step()
        kept.append(loss.detach().item())
    # What the last step did not use has no gradient.
    kept += [p.grad.detach() for p in model.parameters() if p.grad is not None]
    kept += [t.detach() for t in [*model.parameters(), *model.buffers()]]
    return kept


def equal(left, right):
    pairs = zip(left, right, strict=True)
    return all(a == b if isinstance(a, float) else torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("share", [0.6, 0.4])
@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_are_equal_within_the_budget(name, share):
    make, data = MODELS[name]
    eager, meter = Meter(), Meter()
    expected = train(make, data, meter=eager)
    budget = int(eager.peak * share)
    context = rk.memory_budget(budget)
    assert equal(train(make, data, context, meter=meter), expected)
    # The promise, to the byte.
    assert meter.peak <= budget + meter.largest, f"{meter.peak} of {budget}, {meter.largest} at once"
    assert meter.peak <= context.statistics()["peak_bytes"], "the core knows of all that is in memory"
    assert context.statistics()["recomputations"] < 2 * context.statistics()["calls"], "it does not thrash"
    nothing_stays(context)


def calls_with(model, x, budget=None):
    """Calls that the core knows of after a forward pass, and results within a budget as in eager."""
    torch.manual_seed(0)
    expected = model(x)
    with rk.memory_budget(budget) as context:
        torch.manual_seed(0)
        found = model(x)
        calls = context.statistics()["live_calls"]
        assert equal([rk.decheckpoint(found).detach()], [expected.detach()])
    return calls


def test_writes_in_place_belong_to_the_call_that_made_what_they_write():
    x = torch.randn(4, 8, 6, 6)
    plain = nn.Conv2d(8, 8, 3)
    inside, outside = (nn.Sequential(plain, nn.ReLU(inplace=how)) for how in (True, False))
    assert calls_with(inside, x) < calls_with(outside, x), "one call less, which runs in one buffer"

    def residual(x):
        y = plain(x)
        side = x[:, :, 1:-1, 1:-1] * 2
        y += side
        return y.mul_(side.sigmoid()).clamp_(-1, 1)

    for budget in (None, 40_000):
        calls_with(residual, x, budget)


def test_writes_to_what_was_read_are_versions_of_their_own():
    def run():
        cache = torch.zeros(4, 6, 8)
        state, kept = torch.ones(4, 8), []
        for place in range(6):
            cache[:, place] = state
            state = torch.tanh(cache[:, : place + 1].sum(1) + state)
            kept.append(cache[:, :2] * 2)
        total = torch.zeros(4, 8)
        for value in kept:
            total += value[:, 0] * value[:, 1]
        total.add_(total.clone().mul_(total)).add_(total)
        return [cache, state, total, *kept]

    expected = run()
    with rk.memory_budget(2_500) as context:
        found = run()
        assert equal([f.plain() for f in found], expected)
        assert context.statistics()["recomputations"] > 0


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_packed_sequences_of_differing_lengths(kind):
    def steps(context):
        torch.manual_seed(0)
        model = kind(8, 16, bidirectional=True)
        found = []
        for turn in range(4):
            x = torch.randn(9, 32, 8, generator=torch.Generator().manual_seed(turn))
            with context or torch.enable_grad():
                lengths = torch.arange(32) * (turn + 2) % 9 + 1
                packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
                y, lengths = nn.utils.rnn.pad_packed_sequence(model(packed)[0])
                y.square().mean().backward()
            assert lengths.tolist()[:3] == [1, 3 + turn, 5 + 2 * turn if turn < 3 else 2]
            found += [p.grad.detach().clone() for p in model.parameters()]
        return found

    eager = Meter()
    with eager:
        expected = steps(None)
    context = rk.memory_budget(int(eager.peak * 0.6))
    assert equal(steps(context), expected)
    assert context.statistics()["recomputations"] > 0


def test_gradients_of_gradients_are_those_of_eager():
    def run():
        x = torch.linspace(-1, 1, 512, requires_grad=True)
        y = x
        for _ in range(6):
            y = torch.tanh(y * 1.5) * y
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        return [first, second]

    expected = run()
    with rk.memory_budget(56_000) as context:
        found = run()
        assert equal([f.plain() for f in found], [e.detach() for e in expected])
        assert context.statistics()["recomputations"] > 0


def nothing_stays(context):
    """Memory was short, and what was kept is gone."""
    assert context.statistics()["recomputations"] > 0
    gc.collect()
    found = context.statistics()
    assert (found["live_tensors"], found["memory_bytes"]) == (0, 0)


@pytest.mark.parametrize("heuristic", ["h_dtr", "h_dtr_local", "h_lru", "h_size", "h_msps", "h_rand"])
def test_every_heuristic_computes_the_same(heuristic):
    expected = train(TreeLstm, trees, steps=2)
    context = rk.memory_budget("540KB", heuristic=heuristic)
    assert equal(train(TreeLstm, trees, context, steps=2), expected)
    assert context.statistics()["evictions"] > 0


def test_optimizers_may_step_inside():
    expected = train(FusedGru, sequences, steps=3)
    context = rk.memory_budget("700KB")
    assert equal(train(FusedGru, sequences, context, steps=3, inside=True), expected)
    assert context.statistics()["recomputations"] > 0


def test_adam_steps_inside_and_keeps_no_past():
    def steps(context):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        live = []
        for turn in range(30):
            x = torch.randn(16, 8, generator=torch.Generator().manual_seed(turn))
            with context or torch.enable_grad():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            if context:
                live.append(context.statistics()["live_calls"])
        return [p.detach() for p in model.parameters()], live

    expected, _ = steps(None)
    found, live = steps(rk.memory_budget("100KB"))
    assert equal(found, expected)
    assert live[-1] == live[5], "the past of every step is dropped"


class Heap(ctypes.Structure):
    """What glibc's ``mallinfo2`` tells; ``hblkhd`` and ``uordblks`` are bytes that are in use."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def in_use():
    """Bytes that C++ and Rust have, and objects of Python."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Heap
    heap = ask()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


def test_nothing_leaks_over_hundreds_of_steps():
    torch.manual_seed(0)
    cell = nn.GRUCell(4, 8)
    context = rk.memory_budget("6KB")
    meter = Meter()
    for turn in range(501):
        with meter, context:
            state = torch.zeros(2, 8)
            for _ in range(1 + turn % 3):
                state = cell(torch.ones(2, 4), state)
            state.sum().backward()
            cell.zero_grad()
        del state
        if turn == 20:
            known = len(context.runtime.wrappers)
        if turn == 100:
            before = in_use()
        if turn in (20, 500):
            gc.collect()
            found = context.statistics()
            assert (found["live_tensors"], found["live_calls"], found["memory_bytes"]) == (0, 0, 0)
            assert len(context.runtime.wrappers) == known, "the same ids serve for ever"
            assert meter.now == 0
    # One empty tensor, or one object, that each of the 400 steps leaves would be more.
    held, objects = (now - then for now, then in zip(in_use(), before, strict=True))
    assert held < 100_000 and objects < 250, f"{held} bytes and {objects} objects more"


def test_a_budget_that_cannot_be_met_names_what_is_locked():
    x = torch.randn(64, 64)
    context = rk.memory_budget(30_000)
    with pytest.raises(torch.OutOfMemoryError, match="aten.mul") as caught, context:
        y = x * 2
        z = y + 1
        torch.cat([y, z, y, z])
        torch.cat([y, z])
    error = caught.value
    assert isinstance(error, rk.OutOfMemoryError)
    assert {name for name, _, _ in error.locked} >= {"aten.mul.Tensor", "aten.add.Tensor"}
    # The context goes on afterwards, and with a larger budget the same works.
    context.set_budget("1MB")
    with context:
        assert torch.equal(torch.cat([y, z]).plain(), torch.cat([x * 2, x * 2 + 1]))


def test_values_are_there_when_they_are_asked_for():
    x = torch.arange(4096.0)
    with rk.memory_budget(40_000) as context:
        first = x * 2
        rest = [x + i for i in range(10)]
        assert context.statistics()["evictions"] > 0
        assert first[3].item() == 6 and float(first[4]) == 8 and first[:2].tolist() == [0, 2]
        assert first.numpy()[5] == 10 and first.data[6] == 12
        assert repr(first[1]) == "Managed(tensor(2.))" and f"{first[1]:.1f}" == "2.0"
        assert (first == x * 2).all() and bool((rest[3] > 2).all())
    assert torch.equal(pickle.loads(pickle.dumps(first)), x * 2)
    assert torch.equal(copy.deepcopy(first), x * 2)
    assert torch.equal(rk.decheckpoint(first), x * 2) and type(rk.decheckpoint(first)) is torch.Tensor


@pytest.mark.parametrize("copied", [copy.deepcopy, rk.decheckpoint, lambda x: x.numpy()])
def test_a_copy_is_written_and_its_origin_goes_backward(copied):
    with rk.memory_budget(None):
        weight = torch.nn.Parameter(torch.randn(8, 8))
        made = torch.ones(8, 8) * 2
        loss = (weight * made).sum() + weight.square().sum()
        for one in (weight.detach(), made):
            taken = torch.as_tensor(copied(one))
            taken += 1
        loss.backward()
        assert torch.equal(rk.decheckpoint(weight.grad), 2 + 2 * rk.decheckpoint(weight.detach()))


@pytest.mark.parametrize("budget", [None, 9_000])
def test_views_and_writes_in_place(budget):
    def run():
        torch.manual_seed(3)
        a = torch.randn(8, 64)
        base = a * 1
        left, right = base.chunk(2, 1)
        kept = base + 1
        left.add_(1)
        right[2:4].mul_(3)
        base[:, 5] = right[:, 1]
        base.t()[3].zero_()
        pad = [torch.full((32,), float(i)) for i in range(40)]
        left.copy_(torch.sigmoid(left))
        total = torch.zeros(8)
        total += base.sum(1)
        same = base.add_(base)
        view = base.view(-1)[7:9]
        base.mul_(2)
        return [base, left, right, kept, total, same, view, *pad]

    expected = run()
    with rk.memory_budget(budget) as context:
        found = run()
        assert equal([f.plain() for f in found], expected)
        assert budget is None or context.statistics()["recomputations"] > 0


def test_weights_that_change_leave_what_was_computed_from_them_as_it_was():
    weight = torch.ones(64, requires_grad=True)
    with rk.memory_budget(1_100) as context:
        before = weight.detach() * 3
        spare = [torch.zeros(64) for _ in range(8)]
        with torch.no_grad():
            weight.mul_(5)
        after = weight.detach() * 3
        spare += [torch.zeros(64) for _ in range(8)]
        assert before.plain().sum() == 192 and after.plain().sum() == 960
        assert context.statistics()["recomputations"] > 0
    weight = torch.ones(64)
    with rk.memory_budget(600):
        before = weight * 3
        spare = [torch.zeros(64) for _ in range(4)]
    weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified in place outside"):
        for value in [before, *spare]:
            value.plain()


def test_models_may_be_made_inside_and_use_torch_checkpoint():
    def run(reentrant):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        x = torch.randn(4, 12, 16, requires_grad=True)
        # Copies the layer deeply, and its parameters with it.
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for part in model.layers:
            x = checkpoint(part, x, use_reentrant=reentrant)
        x.square().mean().backward()
        return [p.grad for p in model.parameters()]

    for reentrant in (False, True):
        expected = run(reentrant)
        with rk.memory_budget(150_000) as context:
            found = run(reentrant)
            assert context.statistics()["evictions"] > 0
        assert all(torch.equal(rk.decheckpoint(f), e) for f, e in zip(found, expected, strict=True))


def test_random_numbers_are_drawn_once():
    def run():
        torch.manual_seed(5)
        x = torch.ones(64)
        drawn = [
            nn.functional.dropout(x, 0.5),
            torch.rand(64),
            torch.randn(64).exponential_(),
            torch.randperm(64),
        ]
        drawn += [torch.rand(64, generator=torch.Generator().manual_seed(9)) for _ in range(8)]
        return [*drawn, torch.rand(3)]

    expected = run()
    with rk.memory_budget(1_500) as context:
        found = run()
        assert equal([f.plain() for f in found], expected)
        assert context.statistics()["recomputations"] > 0
    assert torch.equal(torch.rand(3), (run(), torch.rand(3))[1]), "the generator is where it would have been"


def test_checkpoint_and_decheckpoint_need_no_context():
    rk.set_memory_budget("1MB")
    rk.reset_statistics()
    weight = torch.randn(32, 32, requires_grad=True)
    managed = rk.checkpoint(weight)
    assert rk.is_checkpoint(managed) and not rk.is_checkpoint(weight)
    x = torch.randn(4, 32)
    loss = rk.decheckpoint((rk.checkpoint(x) @ managed).tanh().sum())
    assert type(loss) is torch.Tensor
    loss.backward()
    (expected,) = torch.autograd.grad((x @ weight).tanh().sum(), weight)
    assert torch.equal(rk.decheckpoint(weight.grad), expected)
    assert rk.statistics()["calls"] > 3
    rk.unset_memory_budget()


def test_the_log_is_in_the_format_of_dtr(tmp_path):
    log = tmp_path / "step.log"
    model, tree = TreeLstm(), trees(0)
    with rk.memory_budget(None, log=str(log)) as context:
        loss = model(tree)
        context.annotate("BACKWARD")
        loss.backward()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = {line["INSTRUCTION"] for line in lines}
    assert lines[0] == {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
    assert kinds == {"ANNOTATE", "CONSTANT", "MEMORY", "CALL", "ALIAS", "RELEASE"}
    defined = set()
    for line in lines:
        if line["INSTRUCTION"] == "CALL":
            assert set(line["ARGS"]) <= defined
            defined.update(line["RESULT"])
        if line["INSTRUCTION"] == "CONSTANT":
            defined.add(line["NAME"])
        if line["INSTRUCTION"] == "RELEASE":
            defined.remove(line["NAME"])


def test_wrong_options_are_refused_by_name():
    with pytest.raises(ValueError, match="GIB"):
        rk.memory_budget("2GIB")
    with pytest.raises(ValueError, match="give bytes"):
        rk.memory_budget("50%")
    with pytest.raises(ValueError, match="h_dtr_eq"):
        rk.memory_budget("1MB", heuristic="h_best")
    with pytest.raises(ValueError, match="total"):
        rk.memory_budget("1MB", scope="all")
