"""codegen="rk": lowered steps in one arena, inside of Python."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

import only_with_runtime  # noqa: F401 - skips this module
import pytest
import test_hard_places as hard
import torch
from test_bits import equal as bits_equal
from test_hard_places import Chain, floats
from torch import nn
from training import equal, train

import rk
from rk import _rk
from rk._codegen import native
from rk._graph import joint
from rk._plan import costs, measure, schedule

sys.path.append(str(Path(__file__).parents[3] / "examples"))


@pytest.fixture
def programs(monkeypatch):
    """Every program that is made, in order."""
    made = []
    original = native.Program.__init__

    def noted(self, *args):
        original(self, *args)
        made.append(self)

    monkeypatch.setattr(native.Program, "__init__", noted)
    return made


def compiled(model, **options):
    return torch.compile(model, backend="rk", options={"codegen": "rk", "time_limit": "1s", **options})


class Perceptron(nn.Module):
    """Branches, batch norm, dropout."""

    def __init__(self, rate=0.3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
        self.norm = nn.BatchNorm1d(64)
        self.drop = nn.Dropout(rate)

    def forward(self, x):
        hidden = x
        for layer in self.layers:
            hidden = self.drop(torch.nn.functional.gelu(layer(hidden))) + hidden
        return self.norm(hidden)


def perceptron():
    return Perceptron(), lambda _: (torch.randn(128, 64),)


def resnet():
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.resnet18(num_classes=10), lambda _: (torch.randn(4, 3, 64, 64),)


def gpt2():
    pytest.importorskip("transformers")
    import models

    return models.gpt2(2)[0], lambda _: (torch.randint(1000, (4, 64)),)


@pytest.fixture
def two_threads():
    """Workspaces of convolutions depend on the number of threads, and how well an arena is filled on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("budget", ["80%", "60%", "40%"])
@pytest.mark.parametrize("make", [perceptron, resnet, gpt2])
def test_networks_train_to_the_bits_of_eager_in_one_arena(make, budget, programs, tmp_path):
    model, batches = make()
    eager = train(model, batches, False, steps=4)
    found = train(model, batches, True, steps=4, codegen="rk", budget=budget, on_infeasible="best")
    assert equal(eager, found)
    (program,) = programs
    took = program.measured()
    assert took.outside == 0 < took.placed
    # The gradients of a launch are left out of its peak, even while only a convolution's workspace stands
    # there and they are not made yet.
    assert 0.88 * took.arena <= took.peak <= took.arena
    results = len(program._handed_out) + len(program._gradients)
    # A node that makes a gradient beside something else may run again for that.
    storages = program._step.result_storages()
    again = [program._step.lines[line - 1] for line, second in program.schedule.runs if second]
    made = (one for node in again for one in joint.results_of(node) if one is not None)
    results += sum(joint.storage_of(one) in storages for one in made)
    # A result that was made in the arena by chance is moved out of it.
    assert took.left <= results + took.moved, "what leaves the step is allocated, and nothing else"


def test_a_result_that_is_kept_is_no_open_call():
    model, batches = perceptron()
    run = compiled(model, budget="80%")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="rk: another forward pass")
        for _ in range(3):
            kept = run(*batches(0))
            kept.square().mean().backward()


def test_the_profiler_sees_what_tensors_request(programs):
    model, batches = perceptron()
    train(model, batches, True, steps=1, codegen="rk", budget="80%")
    with costs.Allocations() as allocations:
        made = torch.empty(1000, dtype=torch.uint8)
        del made
    assert allocations.changes == [1000, -1000]
    with measure.Addresses() as addresses:
        made = torch.empty(1000, dtype=torch.uint8)
    assert addresses.changes == [(made.data_ptr(), 1000)]


@pytest.mark.parametrize("make", [perceptron, gpt2])
def test_arena_and_what_pytorch_allocates_are_within_the_budget(make, programs):
    """What PyTorch's own profiler sees of a step, beside the arena, which it does not see."""
    model, batches = make()
    function = compiled(model, budget="60%")
    inputs = batches(0)

    def step():
        output = function(*inputs)
        output.backward(torch.ones_like(output))

    step()
    (program,) = programs
    model.zero_grad()
    with measure.memory(torch.device("cpu")) as seen:
        step()
    gradients = sum(one.grad.nbytes for one in model.parameters())
    # PyTorch's blocks have a header of 64 bytes here, by which rk counts.
    blocks = 64 * (program.measured().left + 4)
    assert program.measured().arena + seen.peak - gradients - blocks <= program.schedule.budget


def test_what_leaves_a_step_is_the_callers(programs):
    model = Chain()
    function = compiled(model, budget="70%")
    (x,), (y,) = floats(), floats()
    first = function(x)
    first.backward()
    kept = [first.detach(), *(one.grad for one in model.parameters())]
    before = [one.clone() for one in kept]
    model.zero_grad()
    function(y + 1).backward()
    assert equal(before, kept)
    program = programs.pop()
    del function, program
    torch._dynamo.reset()
    gc.collect()
    assert equal(before, kept)


def test_gradients_are_added_to_those_that_are_there():
    def accumulated(options):
        torch._dynamo.reset()
        torch.manual_seed(3)
        model = Perceptron()
        run = torch.compile(model, backend="rk", options=options) if options else model
        for _ in range(2):
            for _ in range(3):
                run(torch.randn(32, 64)).square().mean().backward()
            with torch.no_grad():
                for one in model.parameters():
                    one -= 0.1 * one.grad
        return [*model.parameters(), *(one.grad for one in model.parameters()), *model.buffers()]

    assert equal(accumulated(None), accumulated({"codegen": "rk", "budget": "60%"}))


def test_several_forward_passes_before_the_first_backward(programs):
    def both(function, model):
        torch.manual_seed(1)
        losses = [function(*floats()) for _ in range(3)]
        (losses[0] + losses[2] * losses[1]).backward()
        return [*losses, *(one.grad for one in model.parameters())]

    model, other = Chain(lambda: nn.Dropout(0.3)), Chain(lambda: nn.Dropout(0.3))
    other.load_state_dict(model.state_dict())
    function = compiled(model, budget="80%")
    assert equal(both(model := other, other), both(function, function._orig_mod))
    (program,) = programs
    assert not program._busy and len(program._idle) == 1, "the other arenas are given back"


def test_a_forward_pass_without_backward_gives_its_arena_free(programs):
    model = Chain()
    function = compiled(model, budget="70%")
    function(*floats()).backward()
    (program,) = programs
    machines = set(map(id, program._idle))
    for _ in range(3):
        loss = function(*floats())
        assert len(program._busy) == 1
        del loss
        gc.collect()
        assert not program._busy and set(map(id, program._idle)) == machines
    with torch.no_grad():
        assert torch.equal(function(x := floats()[0]), model(x))


def test_a_second_backward_is_refused():
    loss = compiled(Chain(), budget="70%")(*floats())
    with pytest.raises(RuntimeError, match="retain_graph"):
        loss.backward(retain_graph=True)
        loss.backward()
    with torch._functorch.config.patch(donated_buffer=False):
        torch._dynamo.reset()
        loss = compiled(Chain(), budget="70%")(*floats())
        loss.backward(retain_graph=True)
        with pytest.raises(rk.ExecutionError, match="backward has run already.*codegen='fx'"):
            loss.backward()


def test_parameters_that_change_before_backward_are_noticed():
    model = Chain()
    loss = compiled(model, budget="70%")(*floats())
    with torch.no_grad():
        for one in model.parameters():
            one.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Lookup(nn.Module):
    """Fails on an index that is out of range."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 16)
        self.head = nn.Linear(16, 16)

    def forward(self, ids):
        return self.head(torch.relu(self.words(ids))).square().mean()


def test_a_failing_operator_is_named_and_the_next_step_runs():
    function = compiled(Lookup(), budget="100%")
    good = torch.arange(10)
    function(good).backward()
    with pytest.raises(rk.ExecutionError, match=r'"words[^"]*": aten.embedding.default: index out of range'):
        function(good + 5)
    function(good).backward()


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (lambda: Chain(lambda: nn.RReLU(), layers=10), floats),
        (hard.Normed, hard.images),
        (hard.TwiceNormed, hard.images),
        (hard.Tied, hard.tokens),
    ],
    ids=["rrelu", "norms", "one norm twice", "tied weights"],
)
def test_hard_places(model, inputs):
    options = {"codegen": "rk", "budget": "70%", "on_infeasible": "best"}
    assert bits_equal(*hard.both(model, inputs, options))


def test_buffers_are_updated_in_place_once_and_say_so():
    model = Perceptron()
    function = compiled(model, budget="60%")
    mean, version = model.norm.running_mean, model.norm.running_mean._version
    address = mean.data_ptr()
    for count in range(1, 4):
        function(torch.randn(32, 64)).sum().backward()
        assert model.norm.num_batches_tracked == count
    assert mean.data_ptr() == address and mean.abs().sum() > 0 and mean._version > version


class Broken(nn.Module):
    """Two graphs, the second inside of the first."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Chain(layers=n, width=128) for n in (6, 4))

    def forward(self, x):
        for layer in self.parts[0].layers:
            x = torch.nn.functional.gelu(layer(x))
        torch._dynamo.graph_break()
        return self.parts[1](x)


def test_graphs_inside_one_another_share_the_budget(programs):
    model, budget = Broken(), 3_000_000
    about = {"batches": lambda _: (torch.randn(256, 128),), "loss": lambda one: one}
    eager = train(model, compiled=False, **about)
    assert equal(eager, train(model, compiled=True, codegen="rk", budget=budget, **about))
    outer, inner, *others = (one.measured().arena for one in programs)
    assert len(others) == 2 and outer + inner < sum(others) <= budget, (
        "what is free is used from the second step on"
    )


@pytest.mark.filterwarnings("ignore:rk. ")
def test_graphs_inside_one_another_go_on_with_the_least_that_they_can():
    about = {"batches": lambda _: (torch.randn(256, 128),), "loss": lambda one: one}
    least = {"codegen": "rk", "budget": 1, "on_infeasible": "best"}
    model = Broken()
    assert equal(train(model, compiled=False, **about), train(model, compiled=True, **least, **about))


def test_a_second_process_lowers_nothing(tmp_path, monkeypatch):
    compiled(Chain(), budget="60%", cache_dir=str(tmp_path))(*floats()).backward()
    torch._dynamo.reset()
    monkeypatch.setattr(_rk, "rematerialize", None)
    compiled(Chain(), budget="60%", cache_dir=str(tmp_path))(*floats()).backward()


def test_every_stage_and_the_step_are_written(tmp_path):
    compiled(Chain(), budget="60%", dump_dir=str(tmp_path))(*floats()).backward()
    (lowered,) = tmp_path.glob("*lowered.mlir")
    assert _rk.run_passes(lowered.read_text(), "rk-verify-schedule")


def test_verify_compares_with_the_step_as_it_is(monkeypatch):
    function = compiled(Perceptron(), budget="60%", verify=True)
    for _ in range(3):
        function(torch.randn(32, 64)).sum().backward()
    torch._dynamo.reset()
    original = native.Program._backward
    monkeypatch.setattr(
        native.Program,
        "_backward",
        lambda self, args: [None if one is None else one + 1 for one in original(self, args)],
    )
    with pytest.raises(rk.VerifyError):
        compiled(Chain(), budget="60%", verify=True)(*floats()).backward()


def test_what_the_runtime_cannot_do_is_refused():
    function = compiled(nn.Linear(4, 4).to("meta"), budget="60%")
    with pytest.raises(Exception, match="device 'meta'"):
        function(torch.ones(2, 4, device="meta")).sum().backward()
    with pytest.raises(rk.CompileError, match="the lowered step: not a step file"):
        native._rk_runtime.Machine("nothing", 1)


def test_rk_verify_says_what_it_cannot_see():
    with pytest.raises(rk.OptionError, match="does not see the arena"):
        rk.verify(Chain(), floats(), "60%", codegen="rk")


def test_other_devices_are_refused_before_anything_is_planned(monkeypatch):
    monkeypatch.setattr(schedule, "device_of", lambda _: torch.device("cuda"))
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="codegen='rk' runs on the CPU only"
    ) as info:
        compiled(Perceptron())(torch.randn(4, 64))
    assert isinstance(info.value.inner_exception, rk.CompileError)
