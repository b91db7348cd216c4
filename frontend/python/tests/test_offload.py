"""Values that wait in host memory: bits, both memories, the order of copies, and what is refused."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from test_bits import Mixed, equal, train
from test_hard_places import Chain
from torch import nn

import rk
from rk._graph import transfers
from rk._plan import link, measure
from rk._plan.options import Options

CPU = torch.device("cpu")
FAST = {"offload": True, "bandwidth": "1TB/s"}
"""A link so fast that a copy costs less than running an operator again."""


class Blocks(nn.Module):
    """Attention with dropout, norms and views, and a residual stream."""

    def __init__(self, width=64, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.2, batch_first=True)
            for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


NETWORKS = {
    "mixed": (Mixed, lambda: (torch.randn(16, 3, 8, 8),)),
    "chain": (Chain, lambda: (torch.randn(256, 64),)),
    "blocks": (Blocks, lambda: (torch.randn(4, 32, 64),)),
}


def later(copy):
    """The copy happens when it is waited for, as late as it may."""
    return copy


@pytest.fixture(params=["at once", "later"])
def order(request, monkeypatch):
    """When copies happen."""
    for engine in transfers.engines(CPU):
        monkeypatch.setattr(engine, "begin", later if request.param == "later" else transfers.at_once)


def rk_way(**options):
    return lambda model: torch.compile(model, backend="rk", options=options)


@pytest.mark.parametrize(
    ("network", "budget"),
    [("mixed", "75%"), ("mixed", "65%"), ("chain", "45%"), ("blocks", "70%"), ("blocks", "40%")],
)
def test_bits_are_equal_whenever_copies_happen(network, budget, order):
    make, inputs = NETWORKS[network]
    plain = train(make, inputs, lambda model: torch.compile(model, backend="aot_eager"))
    before = transfers.HOST.now
    transfers.HOST.peak = before
    assert equal(plain, train(make, inputs, rk_way(budget=budget, **FAST)))
    assert transfers.HOST.peak > before, "nothing was moved"
    gc.collect()
    assert transfers.HOST.now == before


def peak_of(model, inputs):
    """The real peak of a training step, in bytes, after a first one."""
    (given,) = inputs()
    step = lambda: model(given).backward()  # noqa: E731
    step()
    gc.collect()
    return measure.peak(step, model)


def test_both_memories_keep_their_budgets():
    torch.manual_seed(0)
    inputs = NETWORKS["blocks"][1]
    free = peak_of(torch.compile(Blocks(), backend="aot_eager"), inputs)
    torch._dynamo.reset()
    budget, host = int(0.5 * free), 150_000
    model = rk_way(budget=budget, **{**FAST, "offload": host})(Blocks())
    transfers.HOST.peak = before = transfers.HOST.now
    assert peak_of(model, inputs) <= budget
    (plan,) = rk.plans()
    assert 0 < transfers.HOST.peak - before <= plan.host_peak <= host


@torch.library.custom_op("rk_offload::once", mutates_args=())
def once(x: torch.Tensor) -> torch.Tensor:
    """Nothing is known of it, so it runs once."""
    return x.sin()


once.register_fake(torch.empty_like)
once.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class RunsOnce(nn.Module):
    """Values that no plan can compute again."""

    def forward(self, x):
        for _ in range(8):
            x = once(x)
        return x.square().mean()


def smallest(**options):
    """The smallest budget that a refusal names."""
    torch._dynamo.reset()
    with pytest.raises(Exception, match="smallest feasible budget") as caught:
        rk_way(budget=1, **options)(RunsOnce())(torch.randn(64, 64, requires_grad=True))
    return caught.value.inner_exception.smallest_bytes


@pytest.mark.parametrize("on_infeasible", ["error", "best"])
def test_a_budget_that_no_recomputation_keeps(on_infeasible):
    least = smallest(**FAST)
    assert least < 0.7 * smallest()
    torch._dynamo.reset()
    given = torch.randn(64, 64, requires_grad=True)
    asked = least if on_infeasible == "error" else 1
    model = rk_way(budget=asked, on_infeasible=on_infeasible, **FAST)(RunsOnce())
    gradients = []
    for way in (RunsOnce(), model):
        way(given).backward()
        gradients.append(given.grad)
        given.grad = None
    assert torch.equal(*gradients)
    assert measure.peak(lambda: model(given).backward(), model) <= least + given.nbytes


def test_an_ended_copy_keeps_nothing_alive():
    """As in a step that is given up between the begin of a copy and its wait."""
    before = transfers.HOST.now
    value = torch.randn(64, 64)
    host = transfers.offload(value)
    assert transfers.HOST.now == before + value.nbytes
    there = weakref.ref(value.untyped_storage())
    del host, value
    assert transfers.HOST.now == before and there() is None


def test_a_forward_pass_without_a_backward_pass_gives_host_memory_back():
    before = transfers.HOST.now
    model = rk_way(budget="45%", **FAST)(Blocks())
    loss = model(torch.randn(4, 32, 64))
    assert transfers.HOST.now > before
    del loss
    gc.collect()
    assert transfers.HOST.now == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"offload": "50%"}, "a share of what"),
        ({"offload": -1}, "offload"),
        ({"offload": 1.5}, "offload=1.5"),
        ({"bandwidth": "25GB/s"}, "add offload=True"),
        ({"offload": True, "bandwidth": "-1GB/s"}, "no rate such as 25GB/s"),
        ({"offload": True, "bandwidth": "fast"}, "no rate such as 25GB/s"),
        ({"offload": True, "codegen": "inductor"}, "codegen='fx' does"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(rk.OptionError, match=said):
        rk.compile(nn.Linear(2, 2), budget="60%", **options)


def test_a_host_budget_in_which_nothing_could_wait_is_refused():
    with pytest.raises(Exception, match="the smallest value of .* that could wait there"):
        rk_way(budget="60%", offload=1, bandwidth="25GB/s")(Blocks())(torch.randn(4, 32, 64))


def test_more_host_memory_than_there_is_left_is_refused(monkeypatch):
    monkeypatch.setattr("rk._plan.device.host_bytes_left", lambda: 1000)
    with pytest.raises(Exception, match="of host memory, of which 1000 are left"):
        rk_way(budget="45%", **FAST)(Blocks())(torch.randn(4, 32, 64))


def test_the_link_is_measured_once(tmp_path, monkeypatch):
    with rk.config.patch(reproducible=False, cache_dir=str(tmp_path)):
        rk_way(budget="45%", offload=True)(Blocks())(torch.randn(4, 32, 64))
        (known,) = tmp_path.glob("link-*.json")
        found = link.measured(Options(cache_dir=tmp_path), CPU)
        assert float(found["bandwidth"].removesuffix("B/s")) > 1e8 and found["latency"].endswith("ns")
        monkeypatch.setattr(link, "_seconds", None)
        assert link.measured(Options(cache_dir=tmp_path), CPU) == found and known.exists()


def test_without_offload_nothing_moves():
    before = transfers.HOST.peak
    assert equal(
        train(*NETWORKS["chain"], rk_way(budget="60%", offload=False)),
        train(*NETWORKS["chain"], rk_way(budget="60%")),
    )
    assert transfers.HOST.peak == before


def test_layers_that_share_a_budget_move_values():
    inputs = NETWORKS["blocks"][1]

    def layered(**options):
        def compiled(model):
            for layer in model.layers:
                layer.compile(**options)
            return model

        return compiled

    plain = train(Blocks, inputs, layered(backend="aot_eager"))
    budget = "45%"
    assert equal(plain, train(Blocks, inputs, layered(backend="rk", options={"budget": budget, **FAST})))


def test_a_plan_is_known_before_anything_runs(tmp_path):
    plan = rk.plan(RunsOnce(), torch.randn(64, 64, requires_grad=True), "50%", **FAST)
    assert plan.peak <= plan.budget and plan.host_peak > 0 and "wait in host memory" in str(plan)
    assert plan.report(tmp_path / "plan.html", points=0).stat().st_size > 0
    plan.timeline(tmp_path / "plan.json")


def test_operators_of_higher_order_are_refused():
    def branches(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)).sum()

    with pytest.raises(Exception, match="no operators of higher order"):
        rk_way(budget="90%", **FAST)(branches)(torch.ones(8, requires_grad=True))
