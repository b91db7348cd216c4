"""codegen="inductor": rk's partition with Inductor's kernels, within the budget as measured."""

from __future__ import annotations

import copy

import pytest
import torch
from test_hard_places import Chain
from torch import nn

import rk
from rk import costs


def gradients(model, backend, steps=5, seed=5, **options):
    """Loss and gradients of one step, and the peak of the last of some without the gradients."""
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, backend=backend, **({"options": options} if options else {}))
    inputs = torch.linspace(-2, 2, 256 * 128).reshape(256, 128)

    def step():
        twin.zero_grad()
        torch.manual_seed(seed)
        loss = run(inputs)
        loss.backward()
        return loss.detach()

    for _ in range(steps):
        loss = step()
    found = [loss, *(p.grad.clone() for p in twin.parameters())]
    twin.zero_grad()
    with costs.Allocations() as allocations:
        step()
    return found, allocations.peak - sum(p.nbytes for p in twin.parameters())


def test_gradients_and_masks_are_those_of_inductor():
    model = Chain(lambda: nn.Dropout(0.3), layers=12, width=128)
    expected, whole = gradients(model, "inductor", steps=1)
    other, _ = gradients(model, "inductor", steps=1, seed=6)
    found, peak = gradients(model, "rk", codegen="inductor", budget="60%", steps=3)
    assert peak <= 0.7 * whole, "less than what Inductor's own partition needs"
    for one, two in zip(expected, found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)
    assert not torch.allclose(expected[1], other[1], rtol=1e-2), "the masks matter"


def test_a_budget_that_inductor_cannot_keep_is_an_error(monkeypatch):
    from rk import inductor

    monkeypatch.setattr(inductor, "ATTEMPTS", 1)
    original = inductor.Tightening.planned

    def wanting(self, schedule, device, gradient_bytes):
        original(self, schedule, device, gradient_bytes)
        self.budget //= 4

    monkeypatch.setattr(inductor.Tightening, "planned", wanting)
    model = torch.compile(Chain(), backend="rk", options={"codegen": "inductor", "budget": "100%"})
    model(torch.randn(64, 64)).backward()
    with pytest.raises(rk.BudgetError, match=r"with Inductor's kernels .* \(measured: \d+ bytes\)"):
        model(torch.randn(64, 64))


def test_without_gradients():
    model = Chain().eval()
    x = torch.randn(64, 64)
    with torch.no_grad():
        found = torch.compile(model, backend="rk", options={"codegen": "inductor", "budget": "60%"})(x)
        torch.testing.assert_close(found, model(x))
