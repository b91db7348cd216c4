"""Programs that campaigns have found faults with, and a fixed set of generated ones in every way."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from codegens import needs_runtime
from torch import nn

import rk
from rk.errors import VerifyError

sys.path.append(str(Path(__file__).parents[1]))
from campaigns.caller import Run  # noqa: E402
from campaigns.judge import Reference, judge  # noqa: E402
from campaigns.program import WAYS_TO_CHANGE, Layer, Program, generate  # noqa: E402

FOUND = {
    # Inductor allocates for several kernels at once, which a plan of one kernel after another does not see:
    # by it, the gradients of a second micro-batch would fit.
    "gradients beside kernels that are allocated for together": (
        "inductor bytes",
        Program(
            218,
            (
                Layer("Transformed", {"how": "jvp"}),
                Layer("Layer", {"act": "gelu", "bias": True}),
                Layer("Cell", {"cell": "GRUCell"}),
            ),
            batches=(16,),
        ),
    ),
    # AOTAutograd merges the buffers, and then does not say which arguments are parameters: their gradients
    # stand beside a second micro-batch.
    "gradients beside buffers that are views of each other": (
        "fx total",
        Program(
            112,
            (
                Layer("SharedBuffer"),
                Layer("Layer", {"act": "gelu", "bias": True}),
                Layer("overwritten", {"how": "mul_"}),
                Layer("Layer", {"act": "gelu", "bias": True}),
            ),
            batches=(16,),
        ),
    ),
    # A second run drops the running statistics, and without weights these alone say that a norm of bfloat16
    # computes in float32.
    "a norm whose statistics tell its precision": (
        "fx least",
        Program(
            307628,
            (Layer("BatchNorm", {"momentum": 0.1, "affine": False, "track": True}),),
            batches=(6,),
            autocast=True,
        ),
    ),
    # The rows that the caller holds have been dropped, and there is no room to make them beside the gradients
    # when the context is left. Nothing asks for them then.
    "what is held is not made when a budget is left": (
        "online segments",
        Program(
            105,
            (
                Layer("function_counted"),
                Layer("function_rounded"),
                Layer("Layer", {"act": "elu", "bias": True}),
                Layer("scaled"),
            ),
            batches=(6, 6, 6),
            optimizer="none",
        ),
    ),
    # One compiled graph runs for two layers, and is planned again before the second: AOTAutograd asks for the
    # backward pass of the first only then, and must not get that of the second plan.
    "planned again before backward": (
        "fx least",
        Program(
            79,
            (
                Layer("Attention", {"how": "bool"}),
                Layer("Layer", {"act": "hardsigmoid", "bias": True}),
                Layer("hooked"),
                Layer("Layer", {"act": "hardsigmoid", "bias": True}),
            ),
            width=32,
            batches=(16,),
            output="tuple",
            input="sliced",
            wrap="layers",
        ),
    ),
    # As many rows as columns: all sizes are known, and the rate is a number among the inputs.
    "a number beside known sizes": (
        "fx 60%",
        Program(
            20033,
            (
                Layer("Dropped", {"rate": 0.5, "how": "dropout1d"}),
                Layer("Dropped", {"rate": 0.5, "how": "dropout"}),
            ),
            width=32,
            batches=(32,),
            dynamic=True,
        ),
    ),
    # Backward reads a view of the input, which shows the old values after `x.data = y`.
    "an input with other data": (
        "rk 100%",
        Program(
            100885, (Layer("Convolution", {"how": "plain"}),), output="with detached", change="input set"
        ),
    ),
    # A norm of bfloat16 saves its statistics in the precision of its weights.
    "a norm under autocast": ("rk 60%", Program(20163, (Layer("Autocast", {"inner": "all"}),))),
    # A batch norm in evaluation mode, too.
    "a frozen norm under autocast": (
        "rk 100%",
        Program(20151, (Layer("Layer", {"act": "gelu", "bias": True}), Layer("FrozenNorm")), autocast=True),
    ),
    # A function in whose middle a graph ends is compiled while the one before it is open: the step has a call
    # that was never metered.
    "a graph break beside an open call": (
        "fx bytes",
        Program(
            70251,
            (Layer("Layer", {"act": "gelu", "bias": True}), Layer("broken", {"how": "explicit"})),
            batches=(6, 6),
        ),
    ),
    # What a checkpoint of the user's hands out is changed before backward, which reads it.
    "a changed result of a checkpoint": (
        "fx 60%",
        Program(
            303490, (Layer("Checkpointed", {"how": "plain"}),), output="with input", change="output in place"
        ),
    ),
    # What hooks have copied does not tell by its memory which forward pass it is of.
    "several runs and hooks that copy": (
        "fx verify",
        Program(
            303626,
            (Layer("Layer", {"act": "gelu", "bias": True}),),
            forwards=2,
            order="each",
            hooks=("saved copy",),
        ),
    ),
    # Inductor draws numbers of its own, and the same ones under a budget.
    "numbers that Inductor draws": (
        "inductor",
        Program(30000, (Layer("Layer", {"act": "tanh", "bias": True}), Layer("drawn", {"how": "rand_like"}))),
    ),
}
SEEDS = {
    "fx least": (4, 15, 22, 31, 32, 43, 62, 67, 101, 108, 115, 127),
    "fx 60%": (3, 8, 18, 41, 59, 97, 111),
    "fx 100%": (28, 31, 60, 80),
    "fx bytes": (9, 32, 36, 71, 105),
    "fx total": (16, 25, 76),
    "fx verify": (10, 26, 49),
    "rk least": (9, 16, 40, 64, 124),
    "rk 60%": (10, 53, 60, 80),
    "rk 100%": (71, 72),
    "Rockmate": (19, 37, 102),
    "online": (13, 106),
    "online 100%": (5, 14, 43, 68),
    "online 60%": (17, 19, 23, 97, 108),
    "online 40%": (62, 84),
    "online segments": (2, 15, 22, 124),
}


@pytest.fixture(autouse=True)
def _traced():
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_runtime if way.startswith("rk ") else ())
        for name, (way, _) in FOUND.items()
    ],
)
def test_what_was_found_stays_right(name):
    way, program = FOUND[name]
    (outcome,) = judge(program, [way])
    assert outcome.verdict == "right", outcome


@pytest.mark.parametrize(
    ("way", "seed"),
    [
        pytest.param(way, seed, marks=needs_runtime if way.startswith("rk ") else ())
        for way, seeds in SEEDS.items()
        for seed in seeds
    ],
)
def test_generated_programs_are_right(way, seed):
    program = generate(seed)
    (outcome,) = judge(replace(program, batches=program.batches[:2]), [way])
    assert outcome.verdict == "right", f"{program}: {outcome}"


def test_a_program_follows_from_its_seed_and_is_read_back():
    for seed in range(200):
        program = generate(seed)
        assert program == generate(seed) == Program.from_json(program.to_json())


@pytest.mark.parametrize("how", WAYS_TO_CHANGE)
@pytest.mark.parametrize("what", ["labels", "state"])
def test_what_the_caller_changes_is_other_afterwards(what, how):
    program = Program(1, (Layer("Constant", {"how": "add"}),), change=f"{what} {how}")
    run = Run(program, lambda one: one)
    one = {"labels": torch.arange(6), "state": torch.ones(6)}[what]
    before = one.clone()
    run._change(one, {what: one}, None)
    assert not torch.equal(one, before)


UNNOTICED = {
    # The norm is in training mode until the first step has ended, and its backward reads statistics after it.
    "read in the second step": (
        "fx 60%",
        Program(310227, (Layer("FrozenNorm"),), batches=(32, 32), change="buffers set", evaluates="no_grad"),
    ),
    # Hooks give backward a copy; the step without the plan, which `verify` runs beside, has the input itself.
    "read by verify alone": (
        "fx verify",
        Program(310059, (Layer("NoisyWeight"),), batches=(6,), change="input set", hooks=("saved pickle",)),
    ),
}


@pytest.mark.parametrize("name", UNNOTICED)
def test_what_backward_reads_may_be_changed_behind_the_back_of_autograd(name):
    way, program = UNNOTICED[name]
    (outcome,) = judge(program, [way])
    assert outcome.verdict == "not comparable" and "through .data" in outcome.detail, outcome


def test_a_change_that_backward_does_not_read_is_no_excuse():
    """Backward reads the statistics of a norm in evaluation mode, and not a buffer that is added."""
    kept = Program(1, (Layer("Constant", {"how": "add"}),), batches=(6, 6), change="buffers set")
    assert not Reference(kept).reads_unnoticed()
    assert Reference(UNNOTICED["read in the second step"][1]).reads_unnoticed()


def layer(act):
    return Layer("Layer", {"act": act, "bias": True})


@pytest.mark.parametrize(
    ("program", "reads"),
    [
        # What the second forward pass begins with is another buffer, and backward reads neither.
        (
            Program(1, (layer("gelu"), Layer("Constant", {"how": "add"})), change="buffers set", rounds=2),
            False,
        ),
        (
            Program(
                1, (Layer("FrozenNorm"),), batches=(6, 6), change="buffers set", evaluates="no_grad", rounds=2
            ),
            True,
        ),
        # The loss is made of the changed output, and reads it. Of the model's own backward, tanh's does.
        (Program(1, (layer("gelu"),), output="rows", change="output data"), False),
        (Program(1, (layer("tanh"),), output="rows", change="output data"), True),
    ],
)
def test_only_what_backward_reads_itself_is_an_excuse(program, reads):
    assert Reference(program).reads_unnoticed() == reads


def test_a_fault_is_noticed(monkeypatch):
    """The judge is no mock: with a gradient that is off by a bit it says so."""
    from rk._codegen import program

    original = program._function

    def off(about, constants):
        run = original(about, constants)

        def boxed(args):
            return [
                one * (1 + 2**-20) if isinstance(one, torch.Tensor) and one.is_floating_point() else one
                for one in run(args)
            ]

        boxed._boxed_call = True
        return boxed

    monkeypatch.setattr(program, "_function", off)
    (outcome,) = judge(Program(0, (Layer("Layer", {"act": "tanh", "bias": True}),)), ["fx 100%"])
    assert outcome.verdict == "wrong", outcome


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_verify_knows_which_run_goes_backward_when_hooks_copy(order):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)))
    run = rk.compile(model, budget="60%", verify=True, on_infeasible="best")
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda one: one):
        losses = [run(torch.randn(16, 32)).sum() for _ in range(3)]
    for place in order:
        losses[place].backward()
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda one: one):
        run(torch.randn(16, 32)).sum().backward()


def test_verify_knows_which_run_goes_backward():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)))
    run = rk.compile(model, budget="60%", verify=True, on_infeasible="best")
    never, first, second = (run(torch.randn(16, 32)).sum() for _ in range(3))
    del never
    first.backward()
    second.backward()
    for _ in range(2):
        run(torch.randn(16, 32)).sum().backward()


def test_verify_of_a_second_backward_after_calls_that_never_went_backward():
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 32))
    run = rk.compile(model, budget="100%", verify=True)
    x = torch.randn(8, 32)
    for _ in range(2):
        run(x)
    loss = run(x).square().sum()
    loss.backward(retain_graph=True)
    # What the calls before have saved is gone, but for the arguments that all of them share.
    loss.backward()


def test_verify_where_an_argument_gets_other_memory():
    first, second = (nn.Sequential(nn.Linear(64, 64), nn.Softplus()) for _ in range(2))
    backend = {"backend": "rk", "options": {"budget": "1%", "verify": True, "on_infeasible": "best"}}
    x = 2 * torch.randn(64, 64, requires_grad=True)
    hidden = torch.compile(first, **backend)(x)
    # The second graph takes the first one, which had the budget alone, by surprise: its call becomes a
    # checkpoint, and lets go of what it has saved.
    loss = torch.compile(second, **backend)(hidden).square().sum()
    x.data = x.data + 0.5
    with pytest.raises(VerifyError, match=r"unless an argument was written to .* \(through \.data\)"):
        loss.backward()


def test_a_graph_is_compiled_while_something_else_has_sparse_gradients():
    table = nn.Embedding(50, 8, sparse=True)
    table(torch.arange(4)).sum().backward()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(2)))
    for layer in model:
        layer.compile(backend="rk", options={"budget": "60%", "on_infeasible": "best"})
    for rows in (16, 24):
        # Memory is read while the second sizes are traced with fake tensors.
        model(torch.randn(rows, 32)).square().sum().backward()
    assert table.weight.grad.is_sparse
