"""A compiled model that is called again before its backward pass: pairs, triplets, a discriminator."""

from __future__ import annotations

import weakref

import pytest
import torch
from test_runs import Block, Tower, equal, ids, in_turn, kept, once, trained
from torch import nn

from rk._run import observe


class Encoder(nn.Module):
    """Ids to a vector."""

    def __init__(self, blocks=2):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
        self.head = nn.Linear(32, 16)

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)).mean(1))


def whole(**options):
    backend = {"backend": "rk", "options": options} if options else {"backend": "aot_eager"}
    return lambda model: model.compile(**backend)


BATCHES = [ids(place) for place in range(4)]


def alone(model):
    model(BATCHES[0]).square().mean().backward()


def pair(model, first=0):
    (model(BATCHES[first]) - model(BATCHES[first + 1])).square().mean().backward()


def triplet(model):
    anchor, near, far = map(model, BATCHES[:3])
    ((anchor - near).square().mean() - (anchor - far).square().mean() + 1).relu().backward()


def accumulated(model):
    for place in range(2):
        pair(model, 2 * place)


def late(model):
    """It is alone for two steps."""
    model.steps = getattr(model, "steps", 0) + 1
    (pair if model.steps > 2 else alone)(model)


def shifted(model):
    """What autograd reads of it is not changed in between, and no version check sees what is."""
    first = model(BATCHES[0])
    for name, parameter in model.named_parameters():
        if name.endswith("bias") and "norm" not in name:
            parameter.data.mul_(2).add_(0.1)
    (first - model(BATCHES[1])).square().mean().backward()


PAIRS = [(pair, 0.45), (triplet, 0.6), (accumulated, 0.6), (late, 0.6), (shifted, 0.45), (shifted, 0.6)]


@pytest.mark.parametrize(("step", "share"), PAIRS)
def test_the_budget_is_kept_from_the_first_step_on(step, share):
    kept(Encoder, step, share, compiled=whole)


def test_a_first_pair_that_takes_too_much_is_told_of():
    """Code that is not compiled makes most of it, the first call's part before anybody reads memory."""
    # In a process in which nothing has counted yet, that part is not known.
    observe.count()

    def two_losses(model):
        (model(BATCHES[0]) + model(BATCHES[1])).backward()

    def one_block(**options):
        compiled = whole(**options)
        return lambda model: compiled(model.blocks[0])

    steps = [once, two_losses, once]
    plain, bits = trained(lambda: Tower(1), in_turn(*steps), one_block(), steps=3)
    budget = int(0.6 * plain[1])
    with pytest.warns(UserWarning, match=rf"a step of 2 calls has taken \d+ bytes of the budget of {budget}"):
        found, same = trained(lambda: Tower(1), in_turn(*steps), one_block(budget=budget), steps=3)
    assert equal(bits, same) and found[1] > budget


class Rectified(nn.Module):
    """Nothing in it needs its input for backward."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        return self.layer(x.relu()).sum()


def test_an_input_that_nobody_needs_is_not_held():
    model = Rectified()
    whole(budget="100%")(model)
    given = torch.randn(4, 32, requires_grad=True) * 2
    known = weakref.ref(given)
    loss = model(given)
    del given
    assert known() is None
    loss.backward()


class Adversaries(nn.Module):
    """Two models with one budget."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(Block(), Block())
        self.discriminator = nn.Sequential(Block(), Block(), nn.Linear(32, 1))


def both(**options):
    def compiled(model):
        for one in (model.generator, model.discriminator):
            whole(**options)(one)

    return compiled


def noise(seed):
    return torch.randn(128, 32, generator=torch.Generator().manual_seed(seed))


def adversarial(model):
    made, judged = model.generator, model.discriminator
    fake = made(noise(1))
    ((judged(noise(0)) - 1).square().mean() + judged(fake.detach()).square().mean()).backward()
    (judged(fake) - 1).square().mean().backward()
    # What is kept of a step that is over is no part of the next one.
    del fake
    (judged(made(noise(2))) - judged(made(noise(3)))).square().mean().backward()


def test_the_models_of_a_gan_keep_their_budget():
    kept(Adversaries, adversarial, 0.6, compiled=both)
