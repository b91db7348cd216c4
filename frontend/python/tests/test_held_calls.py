"""What calls hold between their halves: graphs that are kept, features of frozen layers, what was drawn; and
what a step is told to have taken.
"""

from __future__ import annotations

import contextlib
import re

import pytest
import torch
from test_runs import (
    Block,
    Tower,
    by_blocks,
    departs,
    equal,
    ids,
    in_turn,
    kept,
    micro_batches_at_once,
    once,
    trained,
)
from torch import nn

import rk
from rk._run import group

pytestmark = pytest.mark.filterwarnings("error:rk. a step of:UserWarning")


@pytest.fixture(autouse=True)
def _no_groups():
    group.GROUPS.clear()


def whole(**options):
    """Compiles a model as one graph."""
    backend = {"backend": "rk", "options": options} if options else {"backend": "aot_eager"}
    return lambda model: model.compile(**backend)


def kept_graph(model):
    model(ids()).backward(retain_graph=True)


def backward_twice(model):
    loss = model(ids())
    loss.backward(retain_graph=True)
    loss.backward()


@pytest.mark.parametrize("steps", [[kept_graph] * 4, [kept_graph, backward_twice] * 3], ids=["once", "twice"])
def test_a_graph_that_is_kept_counts_to_its_end(steps):
    plain, bits = trained(Tower, in_turn(*steps), by_blocks(), steps=len(steps))
    budget = int(0.6 * max(plain))
    found, same = trained(Tower, in_turn(*steps), by_blocks(budget=budget), steps=len(steps))
    assert equal(bits, same)
    assert all(peak <= budget for peak in found), (budget, found)


def test_features_of_frozen_layers_are_of_the_step():
    """Nothing but the end of the step tells them from a batch that was there before."""
    model, batch = Tower(), ids()
    for part in (model.embedding, *model.blocks[:4]):
        part.requires_grad_(False)
    by_blocks(budget=1 << 22)(model)
    loss = model(batch)
    (shared,) = group.GROUPS.values()
    step = shared.step
    assert step.events[0].level - step.floor == batch.numel() * 32 * 4
    features = torch.randn(4, 64, 32)
    loss.backward()
    floor = step.floor
    model.blocks[4](features).sum().backward()
    assert shared.step.floor - floor >= features.nbytes


@pytest.mark.parametrize("share", [0.8, 0.6, 0.4])
def test_two_views_of_a_batch_by_dropout(share):
    """The first call of the first step runs the plan that has the whole budget, until the second begins."""

    kept(lambda: Tower(dropout=0.2), micro_batches_at_once, share, whole)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_calls_that_keep_what_they_have_drawn_let_go_of_it(share):
    """The plans of the known step run dropout once, and the calls of the third step cannot hold that."""
    departs(lambda: Tower(dropout=0.2), micro_batches_at_once, share)


@pytest.mark.parametrize("share", [0.6, 0.4])
def test_gradients_that_go_between_the_halves_are_not_of_the_step(share):
    """As in PyTorch's own first examples: the last step's gradients are there in the forward pass, and are
    let go of in front of the backward pass.
    """
    peaks, _ = trained(Tower, once, by_blocks())
    model = Tower()
    by_blocks(budget=int(share * peaks[-1]))(model)
    for _ in range(6):
        loss = model(ids())
        model.zero_grad()
        loss.backward()
    (shared,) = group.GROUPS.values()
    assert shared.step.known is not None and not shared.step.departed


@pytest.mark.filterwarnings("always:rk. a step of:UserWarning")
def test_a_step_that_departs_and_takes_too_much_is_told():
    """Nothing of the second forward pass was foreseen, and still less of what the caller has beside it."""

    def beside_something_large(model):
        loss = model(ids(1)) + model(ids(2))
        torch.empty(budget // 4)
        loss.backward()

    plain, _ = trained(Tower, in_turn(*[micro_batches_at_once] * 2), by_blocks(), steps=2)
    budget = plain[-1]
    steps = [lambda model: model(ids()).backward()] * 3
    with pytest.warns(UserWarning, match="rk: a step of 16 calls has taken .*: it was not as the steps"):
        trained(Tower, in_turn(*steps, beside_something_large, *steps[:1]), by_blocks(budget=budget), steps=5)


@pytest.mark.parametrize("share", [0.6, 0.4])
def test_gradients_of_weights_that_are_computed_are_not_those_of_parameters(share, recwarn):
    """The inner step of meta-learning: what backward makes of them waits for code of the caller's."""

    def adapted(model):
        fast = {name: one * 1.0 for name, one in model.named_parameters()}
        torch.func.functional_call(model, fast, (ids(rows=1),)).backward()

    plain, bits = trained(Tower, adapted, by_blocks())
    budget = int(share * plain[-1])
    _, same = trained(Tower, adapted, by_blocks(budget=budget))
    assert equal(bits, same)
    ((known,),) = (one.known for one in group.GROUPS.values())
    # The weights stand there when the step begins, and are there when it is over.
    assert known.measured <= 1.005 * known.peak <= budget
    assert not [one for one in recwarn if "rk/_run" in one.filename], (
        "nothing reads .grad where there is none"
    )


@pytest.mark.filterwarnings("always:rk. a step of:UserWarning")
def test_what_is_there_for_a_moment_in_later_steps_is_told_and_observed():
    """It comes and goes between two calls, when the sequence has been known and measured."""

    def with_something_large(model):
        loss = model(ids())
        torch.empty(budget // 16)
        loss.backward()

    plain, _ = trained(Tower, in_turn(with_nothing), by_blocks(), steps=1)
    budget = int(0.6 * plain[0])
    turns = [with_nothing] * 3 + [with_something_large] * 5
    _, bits = trained(Tower, in_turn(*turns), by_blocks(), steps=8)
    with pytest.warns(
        UserWarning, match=r"rk: a step of 8 calls has taken \d+ bytes .*: it was not as"
    ) as told:
        found, same = trained(Tower, in_turn(*turns), by_blocks(budget=budget), steps=8)
    assert equal(bits, same)
    exceeding = [peak for peak in found if peak > budget]
    assert found[5:] == [peak for peak in found[5:] if peak <= budget], (budget, found)
    assert len([one for one in told if "rk: a step" in str(one.message)]) == len(exceeding) == 2


def with_nothing(model):
    model(ids()).backward()


class Noisy(Tower):
    """What is not compiled keeps as much for backward, before the first block, as four blocks are given. The
    gradients of a block are four times that of one.
    """

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 128), nn.Linear(128, 50)
        self.blocks = nn.ModuleList(Block(width=128) for _ in range(8))

    def forward(self, ids, skip=()):
        x = self.embedding(ids)
        for _ in range(4):
            x = x * torch.rand_like(x)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def test_a_first_step_that_took_a_little_too_much_is_told_of():
    """By less than the gradients of one block, which may or may not be in what is read of the last one."""
    plain, _ = trained(Noisy, once, by_blocks(), steps=1)
    (least, *_), _ = trained(Noisy, once, by_blocks(budget=plain[0]), steps=1)
    group.GROUPS.clear()
    given = 4 * 64 * 128 * 4
    budget = least - 3 * given
    # What the second step runs is chosen with all that was seen, and may not fit.
    may_fail = contextlib.suppress(rk.BudgetError)
    with (
        pytest.warns(UserWarning, match="a step of 8 calls has taken .*: it was the first") as told,
        may_fail,
    ):
        trained(Noisy, once, by_blocks(budget=budget), steps=2)
    (took,) = re.findall(r"has taken (\d+)", " ".join(str(one.message) for one in told))
    assert budget < int(took) <= least


class Wide(Tower):
    """Its loss takes more memory than all that its blocks hold."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(32, 500)

    def forward(self, batch):
        for part in (self.embedding, *self.blocks):
            batch = part(batch)
        return self.head(batch).logsumexp(-1).square().sum()


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_what_old_gradients_hide_is_seen(share):
    """Code of the caller's takes most in its backward pass, when the old gradients have gone."""

    def observed(zero_late, **options):
        group.GROUPS.clear()
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Wide()
        by_blocks(**options)(model)
        for _ in range(5):
            if not zero_late:
                model.zero_grad()
            loss = model(ids())
            model.zero_grad()
            loss.backward()
        (shared,) = group.GROUPS.values()
        return shared.known[-1]

    peaks, _ = trained(Wide, once, by_blocks())
    budget = int(share * peaks[-1])
    early, late = observed(False, budget=budget), observed(True, budget=budget)
    assert max(abs(late.peak - early.peak), abs(late.measured - early.measured)) < budget // 200


def test_gradients_that_are_replaced_are_counted():
    """A hook puts another tensor in the place of each gradient, which goes: until rk looks again, what is new
    counts as the caller's.
    """

    def measured(change):
        group.GROUPS.clear()
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Wide()
        model.head = nn.Sequential(nn.Linear(32, 256), *(nn.Linear(256, 256) for _ in range(6)))
        by_blocks(budget=2**23)(model)
        for parameter in model.head.parameters():
            parameter.register_post_accumulate_grad_hook(change)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for _ in range(4):
            model.zero_grad(set_to_none=False)
            model(ids()[:1, :16].contiguous()).backward()
        (shared,) = group.GROUPS.values()
        return shared.known[-1].measured, sum(one.nbytes for one in model.head.parameters())

    def in_place(parameter):
        parameter.grad.clamp_(-1, 1)

    once, size = measured(in_place)
    replaced, _ = measured(lambda parameter: setattr(parameter, "grad", parameter.grad.clamp(-1, 1)))
    assert once <= replaced <= once + size


@pytest.mark.parametrize("by", ["exchange", "stash"])
def test_a_parameter_may_have_the_gradient_of_another_or_of_another_step(by):
    """Where it lets go of that one, it points to a tensor that is being destroyed."""
    group.GROUPS.clear()
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Tower()
    by_blocks(budget="8MiB")(model)
    of_blocks = list(model.blocks.parameters())
    for _ in range(4):
        loss = model(ids())
        if by == "exchange":
            first, second = (block.up.weight for block in model.blocks[:2])
            first.grad, second.grad = second.grad, first.grad
            first.grad = None
            second.grad = None
            loss.backward()
            continue
        stash = [one.grad for one in of_blocks]
        model.zero_grad()
        loss.backward()
        loss = model(ids())
        for parameter in of_blocks:
            parameter.grad = stash.pop(0)
            parameter.grad = None
        loss.backward()
    assert all(one.grad.isfinite().all() for one in of_blocks)


def test_gradients_that_nothing_is_known_of_are_left_out():
    """A parameter that is a tensor of oneDNN's, and of another model: it has no storage."""
    other = nn.Parameter(torch.randn(4, 4).to_mkldnn())
    other.to_dense().sum().backward()
    group.GROUPS.clear()
    torch._dynamo.reset()
    model = Tower()
    by_blocks(budget="8MiB")(model)
    for _ in range(3):
        model.zero_grad()
        model(ids()).backward()
    assert other.grad.is_mkldnn


@pytest.mark.parametrize("scope", ["activations", "total", "device"])
def test_sparse_gradients_are_counted(scope):
    """They are in two storages, of indices and of values."""
    group.GROUPS.clear()
    torch.manual_seed(0)
    model = Tower()
    model.embedding = nn.Embedding(*model.embedding.weight.shape, sparse=True)
    by_blocks(budget="8MiB", scope=scope)(model)
    for _ in range(4):
        loss = model(ids())
        model.zero_grad()
        loss.backward()
    assert model.embedding.weight.grad.is_sparse
