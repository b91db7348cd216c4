"""What should not happen where graphs share a budget, and does: nothing leaks or is stale afterwards."""

from __future__ import annotations

import gc

import pytest
import torch
from test_runs import Tower, by_blocks, equal, ids, kept, once, trained
from torch import nn

from rk._run import group, steps

BUDGET = 800_000


def small():
    return Tower(3)


def backward_again(model):
    loss = model(ids(1))
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def stopped_in_backward(model):
    def stop(*_):
        raise ZeroDivisionError

    handle = model.blocks[1].register_full_backward_hook(stop)
    with pytest.raises(ZeroDivisionError):
        model(ids(1)).backward()
    handle.remove()
    model.zero_grad()


def stopped_in_forward(model):
    with pytest.raises(Exception, match="size|shape"):
        model.blocks[1](model.blocks[0](torch.ones(4, 64, 32)).mT)


@pytest.mark.parametrize("misuse", [backward_again, stopped_in_backward, stopped_in_forward])
def test_the_next_steps_are_as_without_rk(misuse):
    def step(model):
        misuse(model)
        model.zero_grad()
        once(model)

    def run(compiled):
        return trained(small, step, compiled, steps=3)[1]

    assert equal(run(by_blocks()), run(by_blocks(budget=BUDGET)))
    gc.collect()
    (shared,) = group.GROUPS.values()
    assert all(one.closed for one in shared.open.values())


def test_losses_that_are_kept_with_their_graphs_hold_what_they_hold():
    def run(compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, losses = small(), []
        compiled(model)
        for place in range(4):
            model.zero_grad()
            losses.append(model(ids(place)))
            once(model)
        losses[1].backward()
        return [one.grad for one in model.parameters()]

    assert equal(run(by_blocks()), run(by_blocks(budget="4MB")))
    gc.collect()
    (shared,) = group.GROUPS.values()
    assert all(one.closed for one in shared.open.values())


class Two(nn.Module):
    """Two models that are trained by turns."""

    def __init__(self):
        super().__init__()
        self.left, self.right = Tower(2), Tower(2)
        self.blocks = [*self.left.blocks, *self.right.blocks]


def interleaved(model):
    left, right = model.left(ids(0)), model.right(ids(1))
    left.backward()
    again = model.left(ids(2))
    right.backward()
    again.backward()


def test_two_models_interleaved_share_the_budget():
    kept(Two, interleaved, 0.6)


def test_a_validation_loss_that_is_kept_is_told_of_and_waited_for_no_longer():
    def run(compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = small()
        compiled(model)
        for _ in range(3):
            once(model)
            model.zero_grad()
        validation = model(ids(9))
        for _ in range(steps.MOST_TURNS + 2):
            once(model)
            model.zero_grad()
        validation.backward()
        return [one.grad for one in model.parameters()]

    expected = run(by_blocks())
    with pytest.warns(UserWarning, match="rk: 3 calls of .* do not go backward, step after step"):
        found = run(by_blocks(budget=BUDGET))
    assert equal(expected, found)
    (shared,) = group.GROUPS.values()
    assert shared.step.known is not None and not shared.step.departed
