"""Calls that have the whole budget, where the parameters have gradients to which theirs are added."""

from __future__ import annotations

import gc

import pytest
import torch
from codegens import CODEGENS
from test_held_calls import whole
from test_runs import Tower, equal, ids
from torch import nn

import rk
from rk._plan import measure
from rk._run import group

BATCHES = [ids(place, rows=1) for place in range(3)]


def passes(model, count=3):
    """Micro-batches, one after another."""
    for batch in BATCHES[:count]:
        model(batch).backward()


def trained(compiled, *, none=True, steps=3, count=3):
    """The peaks of some steps, and their gradients."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    gc.collect()
    torch.manual_seed(0)
    model = Tower()
    compiled(model)
    peaks, bits = [], []
    for _ in range(steps):
        with measure.addresses(torch.device("cpu")) as seen:
            passes(model, count)
        peaks.append(seen.peak(one.grad for one in model.parameters()))
        bits += [one.grad.clone() for one in model.parameters()]
        model.zero_grad(set_to_none=none)
    return peaks, bits


@pytest.mark.parametrize("codegen", [*CODEGENS, "inductor"])
@pytest.mark.parametrize("none", [True, False], ids=["none", "zeros"])
def test_one_graph_keeps_its_budget_in_every_micro_batch(codegen, none):
    reference = "inductor" if codegen == "inductor" else "aot_eager"
    plain = lambda model: model.compile(backend=reference)  # noqa: E731
    (base,), _ = trained(plain, steps=1, count=1)
    _, bits = trained(plain, none=none)
    budget = int({"fx": 0.6, "inductor": 0.7, "rk": 0.7}[codegen] * base)
    found, same = trained(whole(budget=budget, codegen=codegen), none=none)
    assert equal(bits, same)
    if codegen == "rk":
        # Its arena was there when the second step began.
        (owner,) = next(iter(group.GROUPS.values())).classes
        found = [one + owner.base.schedule.arena for one in found[1:]]
    assert 0.95 * budget <= max(found) <= budget, (budget, found)


def test_the_smallest_budget_that_the_error_names_does():
    (base,), _ = trained(whole(), steps=1, count=1)
    model = Tower()
    budget = int(0.4 * base)
    whole(budget=budget)(model)
    model(BATCHES[0]).backward()
    with pytest.raises(rk.BudgetError, match="to which those of .* are added") as told:
        model(BATCHES[1]).backward()
    smallest = told.value.smallest_bytes
    found, _ = trained(whole(budget=smallest))
    assert budget < max(found) <= smallest


@pytest.mark.parametrize("codegen", [*CODEGENS, "inductor"])
def test_both_sets_of_gradients_are_in_the_scope_total(codegen):
    """From the second micro-batch on there are parameters, their gradients, and those to come."""
    reference = "inductor" if codegen == "inductor" else "aot_eager"
    _, bits = trained(lambda model: model.compile(backend=reference))
    (base,), _ = trained(whole(), steps=1, count=1)
    stands = sum(one.nbytes for one in Tower().parameters())
    budget = 2 * stands + int({"fx": 0.6, "inductor": 0.7, "rk": 0.7}[codegen] * base)
    found, same = total(budget, codegen)
    assert equal(bits, same)
    assert 0.93 * budget <= max(found) <= budget, (budget, found)


@pytest.mark.parametrize("codegen", ["fx", "inductor"])
def test_the_smallest_budget_of_the_scope_total_does(codegen):
    stands = sum(one.nbytes for one in Tower().parameters())
    (base,), _ = trained(whole(), steps=1, count=1)
    budget = 3 * stands // 2 + int(0.6 * base)
    with pytest.raises(rk.BudgetError, match="to which those of .* are added") as told:
        total(budget, codegen)
    smallest = told.value.smallest_bytes
    found, _ = total(smallest, codegen)
    assert budget < max(found) <= smallest


def total(budget, codegen="fx"):
    """The peaks of some steps with parameters and all gradients, and their bits."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    gc.collect()
    torch.manual_seed(0)
    model = Tower()
    whole(budget=budget, scope="total", codegen=codegen)(model)
    stands = sum(one.nbytes for one in model.parameters())
    peaks, bits = [], []
    for step in range(3):
        with measure.addresses(torch.device("cpu")) as seen:
            passes(model)
        # An arena was there when the second step began.
        (owner,) = next(iter(group.GROUPS.values())).classes
        plan = owner.base.schedule
        peaks.append(stands + seen.peak([]) + (plan.arena if plan.step is not None and step else 0))
        bits += [one.grad.clone() for one in model.parameters()]
        model.zero_grad()
    return peaks[1:] if codegen == "rk" else peaks, bits


def test_graphs_that_are_never_open_together_do_so_too():
    """Two models take turns, each of which is one graph."""
    (base,), _ = trained(whole(), steps=1, count=1)
    budget = int(0.6 * base)
    torch._dynamo.reset()
    torch.manual_seed(0)
    models = [Tower(), nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 8), nn.GELU())]
    for one in models:
        one.compile(backend="rk", options={"budget": budget})
    peaks = []
    for one in models * 4:
        with measure.addresses(torch.device("cpu")) as seen:
            one(BATCHES[0]).mean().backward()
        peaks.append(seen.peak(weight.grad for weight in one.parameters()))
    assert max(peaks) <= budget, (budget, peaks)


def test_a_second_backward_pass_of_one_forward_pass_is_told():
    (base,), _ = trained(whole(), steps=1, count=1)
    torch._dynamo.reset()
    group.GROUPS.clear()
    model = Tower()
    budget = int(0.7 * base)
    whole(budget=budget)(model)
    with (
        pytest.warns(UserWarning, match=rf"\(retain_graph=True\).* of the budget of {budget}"),
        measure.addresses(torch.device("cpu")) as seen,
    ):
        loss = model(BATCHES[0])
        for _ in range(2):
            loss.backward(retain_graph=True)
    assert seen.peak(one.grad for one in model.parameters()) > budget, "there was something to tell"


def test_a_backward_pass_that_has_room_for_another_is_not_told(recwarn):
    (base,), _ = trained(whole(), steps=1, count=1)
    torch._dynamo.reset()
    group.GROUPS.clear()
    model = Tower()
    whole(budget=3 * base)(model)
    loss = model(BATCHES[0])
    loss.backward(retain_graph=True)
    loss.backward()
    assert not [one for one in recwarn if "retain_graph" in str(one.message)]


def zeroed_in_the_middle(compiled, steps=6):
    """Peaks and bits where the last gradients are let go of between the two passes."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    torch.manual_seed(0)
    model = Tower()
    compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    peaks = []
    for step in range(steps):
        with measure.memory(torch.device("cpu")) as read:
            loss = model(BATCHES[step % 3])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        peaks.append(read.peak)
    return peaks, [one.detach() for one in model.parameters()]


@pytest.mark.parametrize("share", [0.6, 0.4])
def test_gradients_that_go_before_the_backward_pass_need_no_room(share):
    """With 40 %, no plan would leave room for them."""
    (base,), _ = trained(whole(), steps=1, count=1)
    _, bits = zeroed_in_the_middle(whole())
    budget = int(share * base)
    found, same = zeroed_in_the_middle(whole(budget=budget))
    assert equal(bits, same)
    (owner,) = next(iter(group.GROUPS.values())).classes
    assert owner.zeroes >= 2
    # What is there when a step begins, the last gradients, is let go of.
    gradients = sum(one.nbytes for one in same)
    assert all(peak <= budget + gradients for peak in found), (budget, found)


def test_who_adds_again_after_letting_go_is_told():
    (base,), _ = trained(whole(), steps=1, count=1)
    model = Tower()
    whole(budget=int(0.6 * base))(model)
    for zeroes in (False, True, True):
        loss = model(BATCHES[0])
        if zeroes:
            model.zero_grad()
        loss.backward()
    with pytest.warns(UserWarning, match="to others, which it did not do in its last calls: .* bytes"):
        model(BATCHES[1]).backward()


def test_micro_batches_of_which_the_first_lets_go_keep_the_budget(recwarn):
    """Zeroing in the middle of the first pass, and adding in the second, surprises nobody."""
    (base,), _ = trained(whole(), steps=1, count=1)
    model = Tower()
    budget = int(0.6 * base)
    whole(budget=budget)(model)
    for _ in range(4):
        for place, batch in enumerate(BATCHES):
            with measure.memory(torch.device("cpu")) as read:
                loss = model(batch)
                if place == 0:
                    model.zero_grad()
                loss.backward()
            assert read.peak <= budget + sum(one.nbytes for one in model.parameters())
    assert not [one for one in recwarn if "rk:" in str(one.message)]


@pytest.mark.parametrize("codegen", ["fx", "inductor"])
def test_gradients_of_other_parameters_than_the_first_are_seen(codegen):
    (base,), _ = trained(whole(), steps=1, count=1)
    model = Tower()
    whole(budget=int(0.7 * base), codegen=codegen)(model)
    for _ in range(3):
        model(BATCHES[0]).backward()
        model.embedding.weight.grad = None
    (owner,) = next(iter(group.GROUPS.values())).classes
    assert owner.adds or "adding" in vars(owner)
