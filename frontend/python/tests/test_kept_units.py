"""Another budget of the same model takes no new lowering, and no kernel is compiled twice."""

from __future__ import annotations

import copy

import pytest
import torch
from test_units import MOST, Layers, plans  # noqa: F401
from torch import fx, nn
from torch._inductor import cpp_builder
from torch._subclasses import FakeTensorMode

from rk._inductor import kept, lowering


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """Which graphs are lowered, and which libraries the C++ compiler makes."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept, "_KEPT", type(kept._KEPT)())
    lowered, built = [], []
    schedule, build = lowering.scheduled, cpp_builder.CppBuilder.build

    def scheduled(gm, *args, **about):
        lowered.append(gm)
        return schedule(gm, *args, **about)

    def counting(self):
        built.append(self.get_target_file_path())
        return build(self)

    monkeypatch.setattr(lowering, "scheduled", scheduled)
    monkeypatch.setattr(cpp_builder.CppBuilder, "build", counting)
    return lowered, built


def gradients(model, inputs, **how):
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, **how)
    torch.manual_seed(5)
    run(inputs).backward()
    return [one.grad for one in twin.parameters()]


def test_other_budgets_begin_at_planning(counted, plans):  # noqa: F811
    lowered, built = counted
    torch.manual_seed(0)
    model, inputs = Layers(nn.functional.gelu, layers=3, width=16), torch.randn(64, 16)
    expected = gradients(model, inputs, backend="inductor")
    for place, budget in enumerate(("80%", "100%", "70%")):
        options = {"codegen": "inductor", "budget": budget, "on_infeasible": "best"}
        found = gradients(model, inputs, backend="rk", options=options)
        assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))
        assert len(plans) == place + 1 and len(lowered) == 2, "forward and backward, once"
    assert {one.pinned for one in plans} == {True, False}
    assert built and len(set(built)) == len(built), "no kernel twice"
    assert abs(plans[-1].foreseen - plans[-1].peak) <= MOST * plans[-1].peak


def test_another_number_in_a_graph_is_another_graph(counted):
    lowered, _ = counted
    torch.manual_seed(0)
    inputs = torch.randn(32, 16)
    for factor in (2.0, 3.0):
        model = Layers(lambda x, factor=factor: (x * factor).sin(), layers=2, width=16)
        expected = gradients(model, inputs, backend="inductor")
        found = gradients(model, inputs, backend="rk", options={"codegen": "inductor", "budget": "100%"})
        assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))
    assert len(lowered) == 4


def test_a_bounded_number_is_kept(counted, monkeypatch):
    lowered, _ = counted
    monkeypatch.setattr(kept, "MOST", 1)
    inputs = torch.randn(32, 16)
    options = {"codegen": "inductor", "budget": "100%"}
    one, other = (Layers(function, layers=1, width=16) for function in (torch.sin, torch.cos))
    for model in (one, other, one):
        gradients(model, inputs, backend="rk", options=options)
    assert len(lowered) == 6 and len(kept._KEPT) == 1


def test_what_the_partition_depends_on_is_compared():
    usual = kept._configuration()
    with torch._functorch.config.patch(activation_memory_budget=0.5):
        assert kept._configuration() != usual
    with torch._inductor.config.patch(post_grad_custom_post_pass=lambda graph: None):
        assert kept._configuration() is None, "nobody can tell what a pass of the user's does"
    assert kept._configuration() == usual


def test_all_that_is_kept_of_a_graph_is_traced_in_the_mode_of_the_next():
    """PyTorch notes the arguments of the user's operators beside them, as eager execution lays them out."""
    graph, (old, new) = fx.Graph(), (FakeTensorMode(), FakeTensorMode())
    with old:
        x, y = torch.empty(2, 3), torch.empty(3)
    node = graph.placeholder("x")
    node.meta = {"val": x, "eager_input_vals": ((x, [y]), {"total": y})}
    graph.output((node,))
    (moved, _) = lowering.in_mode(fx.GraphModule({}, graph), new).graph.nodes
    (one, (two,)), named = moved.meta["eager_input_vals"]
    assert moved.meta["val"] is one and named["total"] is two
    assert all(value.fake_mode is new for value in (one, two))
    assert node.meta["val"] is x
