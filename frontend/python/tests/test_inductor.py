"""codegen="inductor": what users see of plans on Inductor's kernels, and of what cannot be planned so."""

from __future__ import annotations

import copy

import pytest
import torch
from test_hard_places import Chain
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention

import rk
from rk._inductor import backend, halves
from rk._plan import measure


def gradients(model, compiler, seed=5, **options):
    """Loss and gradients of one step, and the peak of the next."""
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, backend=compiler, **({"options": options} if options else {}))
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
    """Lets a fraction of what the plan is within be all that was asked for; the budgets that were planned."""
    from rk._inductor import forecast

    original, seen = forecast.Forecast.planned, []

    def less_than_planned(self, budget, *about):
        seen.append(budget)
        original(self, budget // 4, *about)

    monkeypatch.setattr(forecast.Forecast, "planned", less_than_planned)
    return seen


def small_steps(steps, **options):
    options = {"codegen": "inductor", "budget": "100%", **options}
    model = torch.compile(Chain(layers=4), backend="rk", options=options)
    for _ in range(steps):
        model(torch.randn(256, 64)).backward()
        model.zero_grad()


@pytest.mark.filterwarnings("ignore:rk. the kernels that Inductor would make")
def test_a_forecast_that_is_exceeded_is_told_after_one_step_and_one_plan(told):
    with pytest.raises(rk.BudgetError, match=r"a step took \d+ bytes, and the budget is .* codegen='fx'"):
        small_steps(2)
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="is a forecast. codegen='fx' keeps") as seen:
        small_steps(4, on_infeasible="best")
    assert sum("a step took" in str(one.message) for one in seen) == 1
    assert len(told) == 2, "one plan each"


@pytest.fixture
def plans_fall_short(monkeypatch):
    """Lets each pinned plan take more than is foreseen of it; by how much less each attempt was planned."""
    attempts = []
    attempt, peak = backend.Compiler._attempt, backend.Planned.peak.fget

    def counted(self, *about):
        attempts.append(self._less)
        return attempt(self, *about)

    monkeypatch.setattr(backend.Compiler, "_attempt", counted)
    monkeypatch.setattr(backend.Planned, "peak", property(lambda self: peak(self) + 4096 * self.pinned))
    return attempts


def test_the_smallest_budget_that_is_named_counts_what_plans_fell_short_by(plans_fall_short):
    def refused(budget, message):
        with pytest.raises(BackendCompilerFailed, match=message) as caught:
            small_steps(1, budget=str(budget))
        torch._dynamo.reset()
        return caught.value.inner_exception

    smallest = refused(1, "fits 1 B").smallest_bytes
    error = refused(smallest, r"the best plan that was found takes \d+ bytes above the budget")
    assert error.budget_bytes == smallest < error.smallest_bytes <= smallest + 4096
    small_steps(1, budget=str(error.smallest_bytes))


def test_the_budget_that_is_named_does_where_every_other_plan_falls_short_by_far(monkeypatch):
    peak = backend.Planned.peak.fget
    takes = {}

    def takes_more(self):
        # The first plan that is tried, and no other one, takes a little more than is foreseen.
        first = next(iter(takes), self.key)
        takes[self.key] = peak(self) + ((4096 if self.key == first else 1 << 30) if self.pinned else 0)
        return takes[self.key]

    monkeypatch.setattr(backend.Planned, "peak", property(takes_more))

    def refused(budget):
        with pytest.raises(BackendCompilerFailed) as caught:
            small_steps(1, budget=str(budget))
        torch._dynamo.reset()
        return caught.value.inner_exception.smallest_bytes

    smallest = refused(1)
    named = refused(smallest)
    assert smallest < named <= smallest + 4096
    small_steps(1, budget=str(named))


def test_the_plan_for_the_smallest_budget_is_pinned_once(plans_fall_short):
    with pytest.warns(UserWarning, match=r"with Inductor's kernels the step takes \d+ bytes while"):
        small_steps(1, budget="1", on_infeasible="best")
    assert plans_fall_short in ([0], [0, 0]), "once as Inductor would, if nothing runs again, and once pinned"


def test_what_cannot_be_read_as_kernels_is_said(forecast):
    with pytest.warns(UserWarning, match=r"cannot be planned \(as the test says\).* is a forecast"):
        small_steps(1)


class Images(nn.Module):
    """Rows as small images, which a kernel may lay out with the channels last, and rows again."""

    def __init__(self):
        super().__init__()
        self.linear, self.convolution = nn.Linear(16, 16), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        x = torch.sin(self.linear(x))
        return (torch.tanh(self.convolution(x.unflatten(1, (4, 2, 2)))).reshape_as(x) + x).square().mean()


@pytest.mark.filterwarnings("error:rk. the kernels that Inductor would make")
def test_views_of_what_lies_in_another_layout_are_read():
    model = torch.compile(
        Images().bfloat16(), backend="rk", options={"codegen": "inductor", "budget": "100%"}
    )
    model(torch.randn(6, 16).bfloat16()).backward()


class Channels(nn.Module):
    """Whole channels are dropped: PyTorch draws which, in place, between Inductor's kernels."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(6))
        self.dropout = nn.Dropout1d(0.5)

    def forward(self, x):
        for layer in self.layers:
            x = self.dropout(torch.tanh(layer(x)).view(8, -1, 128)).view(-1, 128)
        return x.square().mean()


@pytest.mark.filterwarnings("error:rk. the kernels that Inductor would make")
def test_whole_channels_that_are_dropped_are_planned():
    model = Channels()
    expected, whole = gradients(model, "inductor")
    for share in (0.7, 0.5):
        found, peak = gradients(model, "rk", codegen="inductor", budget=str(int(share * whole)))
        assert peak <= share * whole
        assert all(torch.equal(one, two) for one, two in zip(expected, found, strict=True))


def by_sign(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def with_itself(x):
    return flex_attention(x, x, x)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("function", "name"), [(by_sign, "cond"), (with_itself, "flex_attention")])
def test_operators_of_higher_order_are_named(function, name):
    graph = make_fx(function, tracing_mode="fake")(torch.randn(1, 1, 16, 16)).graph
    with pytest.raises(rk.CompileError, match=f"^{name} brings graphs or kernels of its own"):
        halves._refuse(graph)


def test_without_gradients():
    model = Chain().eval()
    x = torch.randn(64, 64)
    with torch.no_grad():
        found = torch.compile(model, backend="rk", options={"codegen": "inductor", "budget": "60%"})(x)
        torch.testing.assert_close(found, model(x))


@pytest.mark.parametrize("budget", ["60%", "100%"])
def test_a_pass_without_calls(budget):
    """The gradient of a sum is what comes in, twice: Inductor has nothing to generate."""
    a, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    options = {"codegen": "inductor", "budget": budget, "on_infeasible": "best"}
    torch.compile(lambda a, b: a + b, backend="rk", options=options)(a * 2, b * 3).sum().backward()
    assert a.grad.unique() == 2 and b.grad.unique() == 3


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
