"""Operators whose results are no plain tensors: nested, numbers, not strided."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rk
from campaigns.opinfo.compiled import WAYS, outcomes
from campaigns.opinfo.families import Subject
from rk._plan.measure import peak


@torch.library.custom_op("rk_test::halves", mutates_args=())
def halves(x: torch.Tensor, most: int) -> tuple[list[torch.Tensor], torch.Tensor, int]:
    """The halves of a tensor, what is largest in it, and a number."""
    first, second = x.clone().chunk(2)
    return [first.clone(), second.clone()], x.amax(), most


@halves.register_fake
def _(x, most):
    first, second = torch.empty_like(x).chunk(2)
    return [torch.empty_like(first), torch.empty_like(second)], x.new_empty(()), most


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], output[1])


def _backward(ctx, halves, largest, _):
    x, most = ctx.saved_tensors
    return torch.cat(halves) + torch.where(x == most, largest, 0), None


halves.register_autograd(_backward, setup_context=_setup)


def both_halves(x):
    (first, second), largest, most = torch.ops.rk_test.halves(x.sin(), 3)
    return first * second.exp() * largest * most


@pytest.mark.parametrize("way", WAYS)
def test_nested_results(way):
    for name in ("rk_test::halves", "rk_test::halves_backward"):
        if hasattr(torch.ops.rk_test, name.partition("::")[2]):
            rk.allow_recompute(name)
    x = torch.randn(8, 4, requires_grad=True)
    found = outcomes([Subject(both_halves, (x,), {})], [way], print)
    assert found[way].kind == "equal", found


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_depends_on_data_is_refused_by_name(way):
    x = torch.randn(8, requires_grad=True)
    found = outcomes(
        [Subject(lambda x: x * torch.full((2, 8), x.sum().item()).sum(), (x,), {})], [way], print
    )
    assert found[way].kind == "refused", found
    assert "computed from data" in found[way].reason, found


class Shrinks(nn.Module):
    """A loss whose kernel makes all terms and keeps their memory as that of their mean."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1 << 16))

    def forward(self, x):
        return nn.functional.binary_cross_entropy((x * self.weight).sin().sigmoid(), x.clamp(0, 1))


class WritesSlices(Shrinks):
    """Writes into every second element: what is copied there lies in memory with gaps."""

    def forward(self, x):
        y = (x * self.weight).sin()
        y[::2] = y[1::2].exp()
        return y.sin().square().mean()


@pytest.mark.parametrize("make", [Shrinks, WritesSlices])
def test_results_that_hold_more_than_tracing_says_are_counted(make):
    model, x = make(), torch.randn(1 << 16)

    def step(budget):
        torch._dynamo.reset()
        return torch.compile(model, backend="rk", options={"budget": budget})

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as refused:
        step(1)(x)
    budget = refused.value.inner_exception.smallest_bytes
    run = step(budget)
    run(x).backward()
    assert peak(lambda: run(x).backward(), model) <= budget
