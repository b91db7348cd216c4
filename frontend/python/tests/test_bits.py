"""Five steps of an optimizer, with and without rk: loss, parameters and buffers are equal to the last bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rk


class Mixed(nn.Module):
    """Convolution, batch norm, dropout, views that cross each other, and a chain worth recomputing."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 6)
        self.down = nn.Linear(3 * 8 * 8, 64)
        self.chain = nn.Sequential(
            *(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.3)) for _ in range(6))
        )

    def forward(self, x):
        side = self.chain(self.down(x.flatten(1)))
        x = nn.functional.dropout(torch.relu(self.norm(self.conv(x))), 0.3)
        left, right = x.mean((2, 3)).split(4, 1)
        return self.head(torch.cat([right, left], 1)).sum() + side.square().mean()


def train(make, inputs, compiled, steps=5):
    """Losses, parameters and buffers after some steps from the same seed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make()
    step = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    torch.manual_seed(1)
    for _ in range(steps):
        loss = step(*inputs())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return [*losses, *model.parameters(), *model.buffers()]


def equal(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("budget", ["100%", "80%", "75%"])
def test_five_steps_are_equal(budget):
    inputs = lambda: (torch.randn(16, 3, 8, 8),)  # noqa: E731
    plain = train(Mixed, inputs, lambda model: torch.compile(model, backend="aot_eager"))
    planned = train(
        Mixed, inputs, lambda model: torch.compile(model, backend="rk", options={"budget": budget})
    )
    assert equal(plain, planned)


def test_a_budget_that_cannot_be_met_names_the_one_that_can():
    model = torch.compile(Mixed(), backend="rk", options={"budget": "10KiB"})
    with pytest.raises(Exception, match="smallest feasible budget found is .* holds the peak") as caught:
        model(torch.randn(16, 3, 8, 8))
    assert isinstance(caught.value.inner_exception, rk.BudgetError)
    assert caught.value.inner_exception.smallest_bytes > 10 * 1024
