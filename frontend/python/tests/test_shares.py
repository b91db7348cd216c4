"""What a share is one of, where the model has checkpoints of its own."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from training import equal, train

import rk
from rk._graph import capture
from rk._plan import measure, options, schedule, shares


class Checkpointed(nn.Module):
    def __init__(self, *more, context_fn=None, skip=0):
        super().__init__()
        self.extra, self.skip = ({} if context_fn is None else {"context_fn": context_fn}), skip
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.GELU(), *(make() for make in more), nn.Linear(256, 64))
            for _ in range(6)
        )

    def forward(self, x):
        for place, part in enumerate(self.parts):
            kept = place < self.skip
            x = part(x) if kept else checkpoint(part, x, use_reentrant=False, **self.extra)
        return x.square().mean()


X = torch.linspace(-2, 2, 256 * 64).reshape(256, 64)


def problem(model):
    step = capture.step_of(model, X)
    return schedule.Problem(step, options.Options(budget="60%"), schedule.device_of(step))


def keep_products():
    def policy(_context, operator, *_args, **_kwargs):
        kept = operator is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


MODELS = {
    "plain": Checkpointed,
    "dropout": lambda: Checkpointed(functools.partial(nn.Dropout, 0.3)),
    "norm": lambda: Checkpointed(lambda: nn.BatchNorm1d(256)),
    "selective": lambda: Checkpointed(context_fn=keep_products),
    "some": lambda: Checkpointed(skip=3),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_the_other_peak_is_what_eager_takes(make):
    model = make()
    eager = measure.peak(measure.training_step(model, X), model)
    asked = problem(model)
    theirs = shares.checkpointed_peak(asked)
    assert theirs < asked.base_peak(0)
    assert 0.85 * eager <= theirs <= 1.15 * eager


def test_without_checkpoints_there_is_one_peak():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))
    asked = problem(model)
    assert shares.checkpointed_peak(asked) == asked.base_peak(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rk.compile(model, budget="80%")(X).sum().backward()


def test_the_user_is_told_once_of_both_peaks():
    model = Checkpointed()
    asked = problem(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            torch._dynamo.reset()
            rk.compile(model, budget="61%")(X).backward()
        rk.compile(model, budget=10**8)(X).backward()
    (one,) = (str(one.message) for one in told if "checkpoints" in str(one.message))
    whole, theirs = asked.base_peak(0), shares.checkpointed_peak(asked)
    assert str(whole) in one and str(theirs) in one and str(int(0.61 * whole)) in one and "share_of" in one


def test_a_share_of_what_the_checkpoints_need():
    model = Checkpointed(skip=3)
    theirs = shares.checkpointed_peak(problem(model))
    plan = rk.plan(model, X, "80%", share_of="checkpoints")
    assert 0.8 * theirs - 64 <= plan.budget <= 0.8 * theirs + 1 and plan.peak <= plan.budget
    run = rk.compile(model, budget="80%", share_of="checkpoints")
    run(X).backward()
    assert measure.peak(measure.training_step(run, X), model) <= plan.budget
    plain = train(model, lambda step: (X,), True, backend="aot_eager")
    assert equal(plain, train(model, lambda step: (X,), True, budget="80%", share_of="checkpoints"))


def test_verify_compares_with_the_checkpoints():
    seen = rk.verify(Checkpointed(), X, "100%", steps=1, time_limit="200ms")
    assert seen and seen.above_eager > 0 and "above that of the model as it is" in str(seen)
    seen = rk.verify(Checkpointed(skip=3), X, "90%", share_of="checkpoints", steps=1)
    assert seen and not seen.above_eager and "above" not in str(seen)
