"""Checkpoints of the user's around calls that share a budget: a step ends when they have run again."""

from __future__ import annotations

import functools

import pytest
import torch
from test_runs import Tower, by_blocks, equal, ids, in_turn, kept, once, trained
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, set_checkpoint_early_stop

import rk
from rk._codegen import saved_hooks
from rk._run import group

pytestmark = pytest.mark.filterwarnings("error:rk. a step of:UserWarning")


@pytest.fixture(autouse=True)
def _no_groups():
    group.GROUPS.clear()


class Segments(Tower):
    """Each segment of some blocks is a checkpoint, as transformers makes one of each layer."""

    def __init__(self, each=1, blocks=8, dropout=0.0, **how):
        super().__init__(blocks, dropout)
        self.each, self.how = each, how

    def segment(self, x, place):
        for block in self.blocks[place : place + self.each]:
            x = block(x)
        return x

    def forward(self, ids, skip=()):
        x = self.embedding(ids)
        for place in range(0, len(self.blocks), self.each):
            x = checkpoint(self.segment, x, place, use_reentrant=False, **self.how)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def test_what_checkpoints_hold_is_of_the_step():
    """The inputs of all blocks are there when the first of them runs again."""
    kept(lambda: Segments(blocks=24), once, 1.0)
    (shared,) = group.GROUPS.values()
    (known,) = shared.known
    assert len(known.variants) == 48, "24 calls run forward twice in one step"
    group.GROUPS.clear()
    plain, _ = trained(lambda: Segments(blocks=24), once, by_blocks())
    named = [24 * 32768]
    while (smallest := refused(named[-1])) is not None:
        named.append(smallest)
    assert 1 < len(named) < 5 and named == sorted(set(named))
    assert named[-1] <= 1.05 * plain[-1]


def refused(budget):
    """The smallest budget that an error names, of which more may be needed for what follows; None if there is
    no error. While the error lives, PyTorch leaves its hooks installed.
    """
    group.GROUPS.clear()
    try:
        found, _ = trained(lambda: Segments(blocks=24), once, by_blocks(budget=budget))
    except rk.BudgetError as error:
        return error.smallest_bytes
    assert all(peak <= budget for peak in found), (budget, found)
    return None


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("share", [0.8, 0.5])
def test_blocks_inside_of_a_checkpoint_run_plans_that_fit(share, early):
    with set_checkpoint_early_stop(early):
        kept(lambda: Segments(4, dropout=0.2), once, share)


def test_steps_with_and_without_checkpoints_are_told_apart():
    plain = functools.partial(Tower.forward)
    steps = (once, lambda model: plain(model, ids()).backward()) * 3
    peaks, bits = trained(lambda: Segments(2), in_turn(*steps), by_blocks(), steps=6)
    budget = int(0.5 * max(peaks))
    found, same = trained(lambda: Segments(2), in_turn(*steps), by_blocks(budget=budget), steps=6)
    assert equal(bits, same)
    assert all(peak <= budget for peak in found), (budget, found)


def test_a_checkpoint_that_selects_sees_the_same_operators_twice():
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    kept(lambda: Segments(2, dropout=0.2, context_fn=contexts), once, 1.1)


class Reentrant(Segments):
    def forward(self, ids, skip=()):
        x = self.embedding(ids)
        for place in range(0, len(self.blocks), self.each):
            x = checkpoint(self.segment, x, place, use_reentrant=True)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def test_what_reentrant_checkpoints_hold_is_told_of():
    base, plain = trained(Reentrant, once, by_blocks())
    budget = int(0.8 * base[-1])
    with pytest.warns(UserWarning, match="a reentrant .* comes on top of the budget .*use_reentrant=False"):
        found, same = trained(Reentrant, once, by_blocks(budget=budget))
    assert equal(plain, same)
    assert max(found) > budget, "there was something to tell"


def test_a_checkpoint_that_is_made_otherwise_is_told_of():
    def pack(tensor):
        return tensor

    pack.__module__ = "torch.utils.checkpoint"
    saved_hooks._tell_unknown.cache_clear()
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed),
        pytest.warns(UserWarning, match="not made as rk knows it"),
    ):
        assert saved_hooks.awaited() is None
