"""A budget that governs nothing is an error, one that governs a part is told of, with frame and reason."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import warnings

import pytest
import torch
from codegens import CODEGENS
from test_hard_places import Chain, floats
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import rk

WIDTH = 32


class Layered(nn.Module):
    """Layers with something between them that Dynamo may stumble over."""

    def __init__(self, make=lambda: nn.Linear(WIDTH, WIDTH)):
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(3))

    def between(self, x):
        return x

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(self.between(layer(x)))
        return x


class SizesFromData(Layered):
    def between(self, x):
        self.rows = torch.where(x[:, 0] > 2)[0]
        return x


class Printing(Layered):
    def between(self, x):
        print(end="")
        return x


class Excluded(Layered):
    @torch.compiler.disable
    def forward(self, x):
        return super().forward(x)


class Yielding(Layered):
    def forward(self, x):
        yield super().forward(x)


class Trying(Layered):
    def forward(self, x):
        with contextlib.suppress(ValueError):
            x = super().forward(x)
            print(end="")
            raise ValueError
        return x


def sample():
    return torch.randn(16, WIDTH)


def ways(model, **options):
    """The model as people compile it; each is called."""
    yield rk.compile(model, **options)
    yield torch.compile(model, backend="rk", options=options)
    twin = copy.deepcopy(model)
    twin.compile(backend="rk", options=options)
    yield twin
    yield rk.compile(lambda x: model(x), **options)


GIVEN_UP = {
    SizesFromData: r"gave up SizesFromData.forward|gave up Layered.forward",
    Printing: r"gave up Layered.forward .*test_governed.py:\d+\) at .*test_governed.py:\d+: .*print",
    Excluded: "Excluded.forward is excluded by torch.compiler.disable|torch.compiler.disable",
    Yielding: "gave up Yielding.forward.*generator",
}


@pytest.mark.parametrize("make", GIVEN_UP, ids=lambda make: make.__name__)
def test_nothing_is_planned(make):
    for way in range(4 if make is SizesFromData else 1):
        torch._dynamo.reset()
        run = list(ways(make(), budget=1000))[way]
        with pytest.raises(rk.CompileError, match=rf"(?s)budget of 1000 governs nothing.*({GIVEN_UP[make]})"):
            run(sample()).sum().backward()


def test_every_call_is_refused_and_a_twin_too():
    model = SizesFromData()
    run = rk.compile(model, budget=1000)
    for one in (run, run, rk.compile(copy.deepcopy(model), budget=1000)):
        with pytest.raises(rk.CompileError, match="gave up Layered.forward"):
            one(sample())


def test_the_option_decides():
    for on_unplanned, follows in (("warn", "warns"), ("ignore", "nothing"), ("error", "raises")):
        torch._dynamo.reset()
        run = rk.compile(SizesFromData(), budget=1000, on_unplanned=on_unplanned)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if follows == "raises":
                with pytest.raises(rk.CompileError, match="governs nothing"):
                    run(sample())
                continue
            for _ in range(3):
                run(sample()).sum().backward()
        ours = [one for one in told if "governs nothing" in str(one.message)]
        assert len(ours) == (follows == "warns") and all(one.filename == __file__ for one in ours)


@pytest.mark.parametrize("budget", ["auto", "100%"])
def test_a_budget_that_does_not_bind_is_a_warning(budget):
    with pytest.warns(UserWarning, match="governs nothing"):
        rk.compile(SizesFromData(), budget=budget)(sample()).sum().backward()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return self.inner(x)


class Beside(nn.Module):
    """A part that Dynamo may not see, between two that it sees."""

    def __init__(self):
        super().__init__()
        self.first, self.hidden, self.last = Block(), Excluded(), Block()

    def forward(self, x):
        return self.last(self.hidden(self.first(x))).square().mean()


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_scripted_part_is_seen():
    model = nn.Sequential(torch.jit.script(Block()), Block())
    with pytest.warns(UserWarning, match="only a part of this call.*(DifferentiableGraph|Addmm)"):
        rk.compile(model, budget="100%")(sample()).sum().backward()
    # Newer versions of torch refuse a whole model that is scripted.
    with pytest.raises(RuntimeError, match="governs nothing|does not support compiling torch.jit.script"):
        rk.compile(model[0], budget=1000)(sample())


@pytest.mark.filterwarnings("ignore:rk. the model runs as")
@pytest.mark.parametrize("make", [Beside, lambda: SizesFromData(Block)], ids=["excluded", "given up"])
def test_a_part_is_planned(make):
    run = rk.compile(make(), budget="100%", time_limit="1s")
    with pytest.warns(UserWarning, match=r"governs only a part of this call: .*Tanh \(3x\)"):
        run(sample()).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(sample()).sum().backward()
    torch._dynamo.reset()
    run = rk.compile(make(), budget="100%", time_limit="1s", on_unplanned="error")
    with pytest.raises(rk.CompileError, match="only a part"):
        run(sample())


def test_one_recompilation_too_many():
    model = Block()
    run = rk.compile(lambda x, name: model(x) * len(name), budget="80%", on_infeasible="best", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for name in ("a", "ab"):
            run(sample(), name).sum().backward()
        for _ in range(2):
            with pytest.raises(rk.CompileError, match="recompile.limit.*recompile_limit"):
                run(sample(), "abc")
        run(sample(), "ab").sum().backward()


def test_errors_that_dynamo_suppresses():
    with torch._dynamo.config.patch(suppress_errors=True):
        with pytest.raises(rk.CompileError, match="governs nothing.*BudgetError.*smallest feasible"):
            rk.compile(Chain(), budget=1000)(*floats())
        with pytest.raises(rk.OptionError, match="bugdet"):
            torch.compile(Chain(), backend="rk", options={"bugdet": 1000})(*floats())


def test_dynamo_is_switched_off(monkeypatch):
    run = rk.compile(Block(), budget=1000)
    with torch.compiler.set_stance("force_eager"), pytest.raises(rk.CompileError, match="force_eager"):
        run(sample())
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with pytest.raises(rk.CompileError, match="TORCHDYNAMO_DISABLE"):
        rk.compile(Block(), budget=1000)


def test_out_of_memory_says_what_was_not_planned():
    class Failing(Layered):
        @torch.compiler.disable
        def between(self, x):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory") as caught:
        rk.compile(Failing(), budget=1000)(sample())
    assert any("gave up Layered.forward" in note for note in caught.value.__notes__)


def quiet(run, *inputs, backward=True):
    """Runs a step three times, without a word of what is not planned."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            result = run(*inputs)
            if backward:
                result.square().mean().backward()
    assert not [one for one in told if "governs" in str(one.message)]


def test_no_false_alarm():
    x = sample()
    # Loss outside of the model, evaluation, an embedding of the caller's in front.
    front = nn.Linear(WIDTH, WIDTH)
    run = rk.compile(Block(), budget="100%")
    quiet(lambda x: torch.tanh(run(torch.tanh(front(x)))), x)
    with torch.no_grad():
        quiet(run, x, backward=False)
        quiet(rk.compile(SizesFromData(), budget=1000), x, backward=False)
    # Nothing to train.
    quiet(rk.compile(SizesFromData().requires_grad_(False), budget=1000), x, backward=False)
    quiet(rk.compile(lambda x: x * 2, budget=1000), x, backward=False)
    # A result that is what came in.
    quiet(rk.compile(lambda x: [x], budget=1000), front.weight, backward=False)


def test_no_false_alarm_where_all_parts_are_planned():
    class Broken(Beside):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Identity()

        def forward(self, x):
            x = self.first(x)
            print(end="")
            return self.last(x)

    quiet(rk.compile(Broken(), budget="100%"), sample())


def test_layers_of_torch_nn_compile_in_place():
    """Of those, Dynamo enters none by itself."""
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(3)))
    for layer in layers:
        layer.compile(backend="rk", options={"budget": "100%"})
    result = layers(sample())
    assert type(result.grad_fn).__name__ == "CompiledFunctionBackward"
    quiet(layers, sample())


def test_what_is_compiled_is_as_before():
    model = Block()
    run = rk.compile(model, budget="100%")
    assert isinstance(run, torch._dynamo.eval_frame.OptimizedModule)
    assert list(run.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    x = sample()
    for twin in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        twin(x).sum().backward()
        assert twin.inner[0].weight.grad is not None and model.inner[0].weight.grad is None
    around = torch.compile(lambda x: run(x) * 2, backend="aot_eager", fullgraph=True)
    assert torch.equal(around(x), run(x) * 2)


def test_verify_says_what_is_not_planned():
    seen = rk.verify(SizesFromData(), sample(), 1000, steps=1)
    assert not seen and seen.planned_peak is None
    assert "governs nothing" in str(seen) and "gave up Layered.forward" in str(seen)
    seen = rk.verify(Beside(), sample(), "100%", steps=1)
    assert not seen and "only a part" in str(seen) and "NOT as promised" in str(seen)


def test_a_mode_that_looks_on_is_named():
    """Dynamo compiles nothing under it, and says so to nobody; nor afterwards, before torch 2.15."""
    run, x = rk.compile(Layered(), budget="1MiB"), torch.randn(64, WIDTH)
    with FlopCounterMode(display=False), pytest.raises(rk.CompileError, match="under FlopCounterMode"):
        run(x)
    try:
        run(x)
        assert rk.plans()
    except rk.CompileError as error:
        assert re.search(r"under FlopCounterMode.*torch\._dynamo\.reset\(\)", str(error))
    torch._dynamo.reset()
    run(x).sum().backward()
    assert rk.plans()


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_default_device_is_for_the_callers_tensors(codegen):
    """What rk tells forward passes apart by has a device of its own."""
    x, found = torch.randn(64, WIDTH), []
    for run in (lambda model: model, lambda model: rk.compile(model, budget="100%", codegen=codegen)):
        torch.manual_seed(0)
        model = Layered()
        function = run(model)
        for _ in range(2):
            with torch.device("meta"):
                loss = function(x).square().mean()
                loss.backward()
        found.append([one.grad for one in model.parameters()])
    assert all(map(torch.equal, *found))
