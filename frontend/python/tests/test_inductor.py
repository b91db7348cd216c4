"""codegen="inductor": what users see of plans on Inductor's kernels, and of what cannot be planned so."""

from __future__ import annotations

import copy

import pytest
import torch
from test_hard_places import Chain
from torch import nn

import rk
from rk._plan import measure


def gradients(model, backend, seed=5, **options):
    """Loss and gradients of one step, and the peak of the next."""
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, backend=backend, **({"options": options} if options else {}))
    inputs = torch.linspace(-2, 2, 256 * 128).reshape(256, 128)
    torch.manual_seed(seed)
    loss = run(inputs)
    loss.backward()
    found = [loss.detach(), *(p.grad.clone() for p in twin.parameters())]
    del loss
    return found, measure.peak(measure.training_step(run, inputs), twin)


def test_gradients_and_masks_are_those_of_inductor():
    model = Chain(lambda: nn.Dropout(0.3), layers=12, width=128)
    expected, whole = gradients(model, "inductor")
    other, _ = gradients(model, "inductor", seed=6)
    found, peak = gradients(model, "rk", codegen="inductor", budget="75%")
    assert peak <= 0.75 * whole, "less than what Inductor's own partition needs"
    for one, two in zip(expected, found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)
    assert not torch.allclose(expected[1], other[1], rtol=1e-2), "the masks matter"


@pytest.fixture
def forecast(monkeypatch):
    """Lets no graph be read as kernels, so that its operators are planned."""
    from rk._inductor import problem

    def refuse(*_):
        raise problem.Unreadable("as the test says")

    monkeypatch.setattr(problem, "problem_of", refuse)


@pytest.fixture
def told(monkeypatch, forecast):
    """A function that lets a share of the first plan's budget be all that was asked for; returns what is
    measured as it goes.
    """
    from rk._inductor import forecast

    original, seen = forecast.Tightening.planned, []

    def less_than_planned(share):
        def planned(self, schedule, device, gradients):
            first = self.budget is None
            original(self, schedule, device, gradients)
            if first:
                self.budget = int(share * schedule.budget)
            seen.append((self, schedule.budget))

        monkeypatch.setattr(forecast.Tightening, "planned", planned)
        return seen

    return less_than_planned


def small_steps(steps):
    model = torch.compile(Chain(layers=8), backend="rk", options={"codegen": "inductor", "budget": "100%"})
    for _ in range(steps):
        model(torch.randn(256, 64)).backward()
        model.zero_grad()


@pytest.mark.filterwarnings("ignore:rk. the kernels that Inductor would make")
def test_a_plan_is_tightened_until_the_measured_peak_is_within_the_budget(told):
    seen = told(0.6)
    small_steps(6)
    (tightening, first), *_, (_, last) = seen
    assert len(seen) > 1 and last < first
    assert tightening.settled and tightening.measured <= tightening.budget < first


@pytest.mark.filterwarnings("ignore:rk. the kernels that Inductor would make")
def test_a_budget_that_inductor_cannot_keep_is_an_error(told, monkeypatch):
    from rk._inductor import forecast

    monkeypatch.setattr(forecast, "ATTEMPTS", 1)
    told(0.05)
    with pytest.raises(rk.BudgetError, match=r"with Inductor's kernels .* \(measured: \d+ bytes\)"):
        small_steps(2)


def test_what_cannot_be_read_as_kernels_is_said(forecast):
    with pytest.warns(UserWarning, match=r"cannot be planned \(as the test says\).* is a forecast"):
        small_steps(1)


def test_without_gradients():
    model = Chain().eval()
    x = torch.randn(64, 64)
    with torch.no_grad():
        found = torch.compile(model, backend="rk", options={"codegen": "inductor", "budget": "60%"})(x)
        torch.testing.assert_close(found, model(x))


class Square(torch.autograd.Function):
    """Hands out what it saves."""

    @staticmethod
    def forward(ctx, x):
        y = x @ x
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y


def test_kernels_that_overwrite_are_not_taken_for_a_graph_whose_values_are_the_callers(monkeypatch, tmp_path):
    """Both graphs have the same backward pass; in the second, what it reads has been handed out."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for function in (lambda x: Square.apply(x) + 1, lambda x: Square.apply(x)):
        x = torch.randn(64, 64, requires_grad=True)
        torch._dynamo.reset()
        run = torch.compile(function, backend="rk", options={"codegen": "inductor", "budget": "100%"})
        y = run(x)
        before = y.detach().clone()
        y.backward(torch.full_like(y, 3.0))
        assert torch.equal(y.detach(), before)
