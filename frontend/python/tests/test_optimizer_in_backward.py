"""Optimizers that take their steps in the backward pass, from hooks on parameters: each gradient is there
for a moment, and the first step makes state that stays.
"""

from __future__ import annotations

import pytest
import torch
from test_runs import Block, Tower, by_blocks, equal, once, trained
from torch import nn

from rk._plan import measure
from rk._run import group

pytestmark = pytest.mark.filterwarnings("error:rk. :UserWarning")
KINDS = {
    "without state": lambda given: torch.optim.SGD(given, lr=0.01),
    "with momentum": lambda given: torch.optim.SGD(given, lr=0.01, momentum=0.9),
    "AdamW": lambda given: torch.optim.AdamW(given, lr=0.01),
}


@pytest.fixture(autouse=True)
def _no_groups():
    group.GROUPS.clear()


class Wide(nn.Module):
    """Layers whose gradients are much larger than what goes through them."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width=64) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def step(model, rows=32):
    model(torch.ones(rows, 64)).backward()


def few_rows(model):
    step(model, rows=2)


BLOCK = sum(one.nbytes for one in Block(width=64).parameters())
"""Bytes of what comes for a moment: the gradients of a block."""


def trained_in_backward(compiled, kind, lets_go, steps=6):
    """The peaks of some steps, and the bits of the parameters."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Wide()
    compiled(model)
    for one in model.parameters():
        optimizer = KINDS[kind]([one])

        def hook(parameter, optimizer=optimizer):
            optimizer.step()
            lets_go(parameter)

        one.register_post_accumulate_grad_hook(hook)
    return [measure.peak(lambda: step(model), model) for _ in range(steps)], list(model.parameters())


def forgets(parameter):
    parameter.grad = None


def zeroes(parameter):
    parameter.grad.zero_()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lets_go", [forgets, zeroes])
def test_neither_gradients_nor_states_are_activations(kind, lets_go):
    plain, _ = trained(Wide, step, by_blocks())
    budget = int(0.6 * plain[-1])
    assert budget < 4 * BLOCK
    _, bits = trained_in_backward(by_blocks(), kind, lets_go)
    found, same = trained_in_backward(by_blocks(budget=budget), kind, lets_go)
    assert equal(bits, same)
    assert all(peak <= budget + BLOCK for peak in found[1:]), (budget, found)
    ((known,),) = (one.known for one in group.GROUPS.values())
    assert known.needs is None and known.peak <= budget


def test_gradients_that_have_just_been_made_are_not_beside_the_calls():
    """Between two calls there are the gradients that autograd gives to parameters."""
    plain, bits = trained(Wide, few_rows, by_blocks())
    assert max(plain) < BLOCK // 2
    found, same = trained(Wide, few_rows, by_blocks(budget=max(plain)))
    assert equal(bits, same) and max(found) <= max(plain)


def test_what_else_a_hook_makes_counts():
    """It stays until the step is over, and no parameter has it."""

    def keeping(model):
        kept = []
        handles = [
            one.register_post_accumulate_grad_hook(lambda given: kept.append(given.grad.clone()))
            for one in model.parameters()
        ]
        once(model)
        for one in handles:
            one.remove()

    plain, bits = trained(Tower, keeping, by_blocks())
    budget = int(0.8 * max(plain))
    found, same = trained(Tower, keeping, by_blocks(budget=budget))
    assert equal(bits, same)
    assert all(peak <= budget for peak in found), (budget, found)
