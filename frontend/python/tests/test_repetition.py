"""What nothing is known of runs once; what may run again gives the same bits: compiled, and under a memory
budget.
"""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from codegens import needs_runtime
from torch import nn
from torch.library import custom_op

import rk
from rk._graph.repetition import Manner, manner

CALLS: list[str] = []
"""Real calls of the operators below, which nobody undoes."""


def counted(name):
    CALLS.append(name)


def gradient_is_scaled(op):
    """The gradient of ``op(x) = x * scale``, whose second result is the scale."""
    op.register_fake(lambda x: (torch.empty_like(x), x.new_empty(x.shape)))
    op.register_autograd(
        lambda ctx, dy, _: dy * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )
    return op


def drawn(x):
    counted("draws")
    scale = torch.rand(x.shape)
    return x * scale, scale


@gradient_is_scaled
@custom_op("rk_tests::draws", mutates_args=())
def draws(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(x)


@gradient_is_scaled
@custom_op("rk_tests::draws_tagged", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def draws_tagged(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(x)


@gradient_is_scaled
@custom_op(
    "rk_tests::draws_compliant", mutates_args=(), tags=(torch.Tag.pt2_compliant_tag, torch.Tag.pointwise)
)
def draws_compliant(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(x)


@rk.allow_recompute
@gradient_is_scaled
@custom_op("rk_tests::draws_allowed", mutates_args=())
def draws_allowed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(x)


@rk.allow_recompute
@gradient_is_scaled
@custom_op("rk_tests::halves_allowed", mutates_args=())
def halves_allowed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    counted("halves")
    scale = torch.full(x.shape, 0.5)
    return x * scale, scale


@rk.allow_recompute
@gradient_is_scaled
@custom_op("rk_tests::refuses_allowed", mutates_args=())
def refuses_allowed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    # Made-up values are all the same.
    assert (x != x.flatten()[0]).any(), "made up"
    return drawn(x)


@gradient_is_scaled
@custom_op("rk_tests::reads_a_queue", mutates_args=())
def reads_a_queue(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    counted("queue")
    scale = torch.full(x.shape, 1 / (1 + CALLS.count("queue")))
    return x * scale, scale


@custom_op("rk_tests::writes", mutates_args=("x",))
def writes(x: torch.Tensor) -> None:
    counted("writes")
    x.mul_(1 + CALLS.count("writes") / 8)


def from_a_queue_in_place(x):
    with torch.no_grad():
        scale = torch.ones_like(x)
        writes(scale)
    return x * scale.sin(), scale


OPERATORS = {
    "draws": draws,
    "draws, tagged": draws_tagged,
    "draws, tagged as something else": draws_compliant,
    "draws, allowed": draws_allowed,
    "pure, allowed": halves_allowed,
    "draws, allowed, refuses made-up values": refuses_allowed,
    "reads a queue": reads_a_queue,
    "reads a queue in place": from_a_queue_in_place,
}
REPEATED = {"draws, tagged", "draws, allowed", "pure, allowed"}
LAYERS, STEPS = 6, 2


def trained(op, how, layers=LAYERS):
    """Losses, gradients, the next random number and the real calls of a few steps."""
    torch._dynamo.reset()
    CALLS.clear()
    torch.manual_seed(0)
    model = nn.ModuleList(nn.Linear(32, 32) for _ in range(layers))

    def forward(x):
        for layer in model:
            x = op(torch.sin(layer(x)))[0]
        return x.square().sum()

    run, found = how(forward), []
    for _ in range(STEPS):
        loss = run(torch.linspace(-1, 1, 64 * 32).reshape(64, 32))
        loss.backward()
        found.append(rk.decheckpoint(loss).detach())
    gradients = [rk.decheckpoint(p.grad).detach() for p in model.parameters()]
    return [*found, *gradients, torch.rand(3)], list(CALLS)


def compiled(codegen, budget):
    options = {"budget": budget, "codegen": codegen, "on_infeasible": "best"}
    return lambda forward: torch.compile(forward, backend="rk", options=options)


def equal(left, right, exact=True):
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a, b) if exact else torch.allclose(a, b, 1e-3, 1e-4) for a, b in pairs)


@pytest.mark.parametrize("name", OPERATORS)
def test_compiled_steps_are_those_of_eager(name):
    expected, calls = trained(OPERATORS[name], lambda forward: forward)
    for budget in ("80%", "20%"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, more = trained(OPERATORS[name], compiled("fx", budget))
        assert equal(found, expected), budget
        if name not in REPEATED and "refuses" not in name:
            assert more == calls, "once, in the order of eager, and not while compiling"
    if name in REPEATED:
        assert len(more) > len(calls), "it runs again at a tight budget"


@pytest.mark.parametrize("name", OPERATORS)
def test_a_memory_budget_gives_the_same(name):
    expected, calls = trained(OPERATORS[name], lambda forward: forward)
    context = rk.memory_budget("150kB")
    with context:
        found, more = trained(OPERATORS[name], lambda forward: forward)
        assert equal([rk.decheckpoint(f).detach() for f in found], expected)
        assert context.statistics()["recomputations"] > 0
    assert (more == calls) or name in REPEATED | {"draws, allowed, refuses made-up values"}
    assert len(more) > len(calls) or name not in REPEATED
    gc.collect()
    assert context.statistics()["live_tensors"] <= len(found)


@pytest.mark.parametrize("options", [pytest.param({"codegen": "rk"}, marks=needs_runtime), {"verify": True}])
def test_a_step_is_not_rehearsed_with_what_runs_once(options):
    def how(forward):
        more = {"budget": "20%", "on_infeasible": "best"}
        return torch.compile(forward, backend="rk", options={**options, **more})

    refused = rf"{next(iter(options))}.*rk_tests.reads_a_queue.*allow_recompute\('rk_tests::reads_a_queue"
    with pytest.raises(RuntimeError, match=refused):
        trained(reads_a_queue, how)
    assert not CALLS
    assert equal(trained(draws_allowed, how)[0], trained(draws_allowed, lambda forward: forward)[0])


@pytest.mark.parametrize("name", ["draws, allowed", "reads a queue"])
def test_inductor_runs_it_as_often(name):
    expected, calls = trained(OPERATORS[name], lambda forward: forward, layers=2)
    found, more = trained(OPERATORS[name], compiled("inductor", "20%"), layers=2)
    assert equal(found, expected, exact=False)
    # What is allowed to run again also runs while its cost is measured.
    assert more == calls or (name == "draws, allowed" and len(more) > len(calls))


def test_plans_are_found_again_only_under_the_same_permission():
    def half(x):
        counted("half")
        return x * 0.5

    once = custom_op("rk_tests::half", half, mutates_args=(), schema="(Tensor x) -> Tensor")
    once.register_fake(torch.empty_like)
    once.register_autograd(lambda ctx, dy: dy * 0.5)

    def op(x):
        return (once(x).sin(),)

    _, calls = trained(op, compiled("fx", "20%"))
    assert calls == ["half"] * LAYERS * STEPS
    assert rk.allow_recompute("rk_tests::half") == "rk_tests::half"
    _, calls = trained(op, compiled("fx", "20%"))
    assert len(calls) > LAYERS * STEPS


def test_permission_is_for_operators_that_exist_and_have_no_effect():
    @custom_op("rk_tests::shouts", mutates_args=())
    def shouts(x: torch.Tensor) -> None:
        counted("shouts")

    assert rk.allow_recompute(torch.ops.rk_tests.draws_allowed) is torch.ops.rk_tests.draws_allowed
    for wrong in (shouts, torch.sin, 3, "rk_tests::nothing", "nothing", ""):
        with pytest.raises(rk.OptionError, match="effect|operator"):
            rk.allow_recompute(wrong)


def test_who_may_run_again():
    ops = torch.ops
    assert manner(ops.aten.mul.Tensor) is Manner.PURE
    assert manner(ops.aten.native_dropout.default) is Manner.RANDOM
    assert manner(ops.rk_tests.draws.default) is Manner.ONCE
    assert manner(ops.rk_tests.draws_tagged.default) is Manner.WATCHED
    assert manner(ops.aten.index_add.default, "cpu") is Manner.PURE
    assert manner(ops.aten.index_add.default, "cuda") is Manner.ONCE
    assert manner(ops.higher_order.triton_kernel_wrapper_functional) is Manner.ONCE
