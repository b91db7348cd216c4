"""Law S9: what the caller changes between forward and backward changes what it changes in eager."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from codegens import CODEGENS
from loaned_models import CASES, Dropped, Shifted, changes_of
from torch import nn

import rk
from rk import _rk
from rk._codegen import emit
from rk._graph import capture, loans
from rk._graph.graph_text import Text
from rk._inductor import problem

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
@pytest.mark.parametrize("codegen", CODEGENS)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_gradients_are_those_of_eager(make, codegen):
    # The smallest budget that is feasible: as much as possible runs again.
    assert wrong(make, codegen, "1%") == []


def test_inductor_keeps_the_copies_apart(monkeypatch):
    problems, read = [], problem.problem_of

    def noted(*about):
        problems.append(read(*about))
        return problems[-1]

    monkeypatch.setattr(problem, "problem_of", noted)
    assert wrong(Shifted, "inductor", "50%") == []
    assert problems and all(one.halves.copies for one in problems), "what is lent can be read again"


def test_inductor_computes_again_what_a_checkpoint_hands_out():
    assert wrong(Dropped, "inductor", "100%") == []


class Saved(nn.Module):
    """The input of the second layer is an output, too, and backward reads it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        return y, self.second(y)


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_changed_output_that_backward_reads_is_an_error(codegen):
    run = torch.compile(Saved(), backend="rk", options={"codegen": codegen, "budget": "100%"})
    shown, result = run(torch.randn(128, 64))
    shown.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("codegen", CODEGENS)
def test_inputs_of_inference_mode(codegen):
    """Autograd counts no writes to them, and saves none of them."""
    found = []
    for backend in ("aot_eager", "rk"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        options = {"options": {"budget": "100%", "codegen": codegen}} if backend == "rk" else {}
        run = torch.compile(lambda x, model=model: model(x + 1), backend=backend, **options)
        for _ in range(2):
            with torch.inference_mode():
                x = torch.randn(64, 32) * 2
            run(x).square().mean().backward()
        found.append([one.grad for one in model.parameters()])
    assert all(map(torch.equal, *found))


def test_a_constant_backward_of_a_custom_function_is_computed_after_the_change():
    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * 1.0

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale.cos(), ctx.scale.exp()

    def step(x, scale):
        return Late.apply(torch.tanh(x), scale).sum()

    found = []
    for run in (step, torch.compile(step, backend="rk", options={"budget": "100%"})):
        x, scale = torch.ones(8, requires_grad=True), torch.ones(8, requires_grad=True)
        loss = run(x, scale)
        scale.data.fill_(3.0)
        loss.backward()
        found.append((x.grad, scale.grad))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])


class Shown(nn.Module):
    """Its backward pass reads a view of what goes in, and what runs again reads the whole."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(16, 16)

    def forward(self, x):
        y = x + self.inner(x.unflatten(1, (4, 4))).flatten(1)
        return nn.functional.gelu(self.outer(y)).square().mean()


@pytest.mark.parametrize("changed", [0, 1])
def test_calls_read_what_they_were_given_even_if_the_callers_tensor_shows_other_memory(changed):
    def train(compiled):
        torch.manual_seed(0)
        model = Shown()
        run, inputs = compiled(model), [torch.randn(6, 16), torch.randn(6, 16)]
        for _ in range(2):
            loss = run(inputs[0]) + run(inputs[1])
            inputs[changed].data = inputs[changed] + 0.5
            loss.backward()
        return [one.grad for one in model.parameters()]

    options = {"budget": "60%", "on_infeasible": "best"}
    expected = train(lambda model: model)
    found = train(lambda model: torch.compile(model, backend="rk", options=options))
    assert all(map(torch.equal, expected, found))


class Masked(nn.Module):
    """One call gives a view of the bias and a mask, and backward reads the mask only."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16, 16))
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x, bias):
        product = (x + bias) @ self.weight
        mask = torch.native_dropout(bias, 0.5, False)[1]
        return product.sum() + torch.where(mask, self.scale, 0.0).sum()


def test_what_is_made_beside_a_view_is_not_the_argument():
    step = capture.step_of(Masked(), (torch.randn(64, 16), torch.randn(16)))
    assert [one.args[0].target for one in loans.copies(step.gm.graph)] == ["primals_2"]


def test_without_pressure_no_copy_is_made():
    step = capture.step_of(Shifted(), torch.randn(128, 64))
    copies = [node for node in step.gm.graph.nodes if node.meta.get(loans.COPY)]
    everything = [(call.line, False) for call in Text(step).calls if not call.is_view]
    emitter = emit.Emitter(step, everything)
    assert copies and not any(node.meta.get(loans.COPY) for node in emitter.forward.nodes)


def test_a_plan_that_reads_on_loan_too_late_is_refused():
    options = {"budget": "230KB", "on_infeasible": "best"}
    text = rk.plan(Shifted(), torch.randn(128, 64), **options).stages["scheduled"]
    line = next(one for one in text.splitlines() if re.search(r"= rk\.run @\S*clone", one))
    late = re.sub(r"%\S+ = rk.run", "%late = rk.run again", line)
    drop = f"rk.drop %late : {re.search(r'-> (tensor<.*?>)', line)[1]}"
    assert _rk.memory(text)
    with pytest.raises(rk.RkError, match="S9"):
        _rk.memory(text.replace("    return ", f"{late}\n{drop}\n    return "))
