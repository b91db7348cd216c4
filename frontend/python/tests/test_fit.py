"""``rk.fit`` foresees what a training loop takes, and what an optimizer takes, before either runs."""

import copy

import pytest
import torch
from torch import nn

import rk
from rk._graph import capture
from rk._plan import optimizers
from rk._plan.costs import Allocations


def perceptron(width=64, depth=6):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)])


class Loss(nn.Module):
    """A network with its loss inside, as transformers' models have it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x).square().mean()


def convolutions():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3),
        nn.Flatten(),
        nn.LazyLinear(8),
    )


def decoder():
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    return GPT2Model(
        GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=64, use_cache=False)
    )


OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "AdamW amsgrad": lambda given: torch.optim.AdamW(given, amsgrad=True),
    "AdamW foreach": lambda given: torch.optim.AdamW(given, foreach=True),
    "AdamW fused": lambda given: torch.optim.AdamW(given, fused=True),
    "SGD": torch.optim.SGD,
    "SGD momentum": lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9, nesterov=True),
    "Adafactor": torch.optim.Adafactor,
    "RMSprop": torch.optim.RMSprop,
    "NAdam": torch.optim.NAdam,
    "Adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_foreseen(name):
    model = perceptron(width=120)
    optimizer = OPTIMIZERS[name](model.parameters())
    foreseen = optimizers.footprint(optimizer)
    now = peak = foreseen.held
    for _ in range(3):
        for one in model.parameters():
            one.grad = torch.ones_like(one)
        with Allocations() as allocations:
            optimizer.step()
        peak = max(peak, now + allocations.peak)
        now += allocations.left
    tensors = len(list(model.parameters()))
    # The allocator rounds up; the profiler tells what was asked for.
    assert now <= foreseen.state <= now + 64 * 3 * tensors
    assert peak <= foreseen.state + foreseen.temporary <= peak + 64 * 4 * tensors
    assert optimizers.footprint(optimizer).held == foreseen.state


def test_an_optimizer_that_needs_a_closure_is_refused_by_name():
    with pytest.raises(rk.CompileError, match="LBFGS"):
        optimizers.footprint(torch.optim.LBFGS(perceptron().parameters()))


def test_the_state_of_an_optimizer_stays_as_it_is():
    model = perceptron()
    optimizer = torch.optim.AdamW(model.parameters())
    before = copy.deepcopy(optimizer.state_dict())
    optimizers.footprint(optimizer)
    assert optimizer.state_dict() == before and not optimizer.state


SAMPLES = {
    "perceptron": (lambda: Loss(perceptron()), lambda: torch.randn(256, 64)),
    "convolutions": (convolutions, lambda: torch.randn(8, 3, 32, 32)),
    "decoder": (decoder, lambda: {"input_ids": torch.randint(0, 100, (4, 64))}),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_peak_of_a_loop_is_foreseen(name):
    made, sampled = SAMPLES[name]
    model, sample = made(), sampled()
    args, kwargs = capture.arguments(sample)
    model(*args, **kwargs)
    foreseen = rk.fit(model, sample, torch.optim.AdamW, device="cpu")
    compiled = rk.compile(model, budget="100%", solver="keep-all")
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        found = compiled(*args, **kwargs)
        found = found if isinstance(found, torch.Tensor) else found.last_hidden_state
        found.sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    compiled(*args, **kwargs)
    with Allocations() as allocations:
        for _ in range(2):
            step()
    measured = allocations.peak + foreseen.parameters + foreseen.buffers + foreseen.inputs
    assert measured == pytest.approx(foreseen.peak, rel=0.02)


def test_nothing_of_the_size_of_the_model_is_allocated():
    with torch.device("meta"):
        model = Loss(perceptron(width=4096, depth=8))
        sample = torch.empty(64, 4096)
    with Allocations() as allocations:
        answer = rk.fit(model, sample, torch.optim.AdamW, device="cuda", budget="4GiB")
    assert allocations.peak < answer.parameters / 100
    assert answer.fits and answer.costs == ("measured" if torch.cuda.is_available() else "roofline")
    assert answer.optimizer >= 2 * answer.parameters and answer.gradients == answer.parameters
    assert "GiB if nothing runs again" in str(answer)


def test_the_largest_batch_fits_and_the_next_does_not():
    model = Loss(perceptron())
    allowed = dict(optimizer=torch.optim.SGD, budget="1MB", device="cpu", max_overhead=25.0, solver="greedy")
    answer = rk.fit(model, torch.empty(64, 64), max_batch=True, **allowed)
    largest = answer.max_batch
    assert largest > 64
    assert rk.fit(model, torch.empty(largest, 64), **allowed).fits
    beyond = rk.fit(model, torch.empty(largest + max(largest // 20, 2), 64), **allowed)
    assert not beyond.fits or beyond.overhead > 25.0


def test_a_budget_below_what_stands_is_said_to_be_too_small():
    answer = rk.fit(perceptron(), torch.empty(8, 64), torch.optim.AdamW, "100KB", "cpu")
    assert not answer.fits and answer.planned is None and "are not enough" in str(answer)
    assert answer.smallest > 100_000


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (dict(budget="auto"), "auto"),
        (dict(max_batch=True), "max_batch"),
        (dict(device="mps"), "mps"),
        (dict(budgit=3), "budgit"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(asked, told):
    with pytest.raises(rk.OptionError, match=told):
        rk.fit(perceptron(), torch.empty(8, 64), **{"device": "cpu", **asked})
