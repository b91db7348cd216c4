"""Law S9: what the caller changes between forward and backward changes what it changes in eager."""

from __future__ import annotations

import copy

import pytest
import torch
from loaned_models import CASES, changes_of

MODELS = list(dict.fromkeys(make for make, _, _ in CASES.values()))


def gradients(run, model, inputs, find, change):
    """All gradients of a step in whose middle something is changed; an error by its first words."""
    model.zero_grad()
    inputs = [one.clone() for one in inputs]
    output = run(*inputs)
    for one in find(model, inputs, output):
        change(one)
    values = output if isinstance(output, tuple) else (output,)
    try:
        values[0].square().mean().backward()
    except RuntimeError as error:
        return str(error)[:40]
    return [None if one.grad is None else one.grad.clone() for one in model.parameters()]


def alike(expected, found, exactly):
    if isinstance(expected, str) or isinstance(found, str):
        return expected == found

    def same(a, b):
        return torch.equal(a, b) if exactly else torch.allclose(a, b, rtol=1e-3, atol=1e-5)

    return all(a is b or same(a, b) for a, b in zip(expected, found, strict=True))


def wrong(make, codegen, budget):
    """The changes after which the gradients are not eager's; an error is equal to the same error."""
    cases = {name: case for name, case in CASES.items() if case[0] is make}
    model, inputs = make(), next(iter(cases.values()))[1]()
    first = copy.deepcopy(model)
    options = {"codegen": codegen, "budget": budget, "on_infeasible": "best", "time_limit": "0.5s"}
    run = torch.compile(model, backend="rk", options=options)
    different = []
    for name, (_, _, find) in cases.items():
        for change, apply in {"nothing": lambda one: None, **changes_of(name)}.items():
            twin = copy.deepcopy(first)
            expected = gradients(twin, twin, inputs, find, apply)
            for one, other in zip(model.state_dict().values(), first.state_dict().values(), strict=True):
                one.copy_(other)
            found = gradients(run, model, inputs, find, apply)
            if not alike(expected, found, codegen != "inductor"):
                different.append((name, change))
    return different


@pytest.mark.filterwarnings("ignore:rk")
@pytest.mark.parametrize("codegen", ["fx", "rk"])
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_gradients_are_those_of_eager(make, codegen):
    # The smallest budget that is feasible: as much as possible runs again.
    assert wrong(make, codegen, "1%") == []
