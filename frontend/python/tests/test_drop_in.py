"""The classes for people who come from the tools that rk replaces, and what goes with them."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from training import equal

import rk


def net(dropout=0.2):
    torch.manual_seed(3)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(dropout)) for _ in range(6)]
    return nn.Sequential(*blocks, nn.BatchNorm1d(64))


SAMPLE = torch.linspace(-2, 2, 128 * 64).reshape(128, 64)
QUICK = {"time_limit": "1s"}


def trained(run, model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = run(SAMPLE).square().mean()
        loss.backward()
        optimizer.step()
    return [loss.detach(), *model.parameters(), *model.buffers()]


def test_rockmate_trains_to_the_same_bits():
    plain, model = net(), net()
    assert rk.CheckpointedModule is rk.Rockmate
    mate = rk.Rockmate(model, SAMPLE, "60%", **QUICK)
    assert 0 < mate.expect_mem <= mate.budget and mate.expect_time > 0
    expected = trained(torch.compile(plain, backend="aot_eager"), plain)
    assert equal(expected, trained(mate, model))
    mate.backward()
    assert list(mate.state_dict()) == list(model.state_dict())


def test_rockmate_refuses_when_it_is_made():
    with pytest.raises(rk.BudgetError) as caught:
        rk.Rockmate(net(), SAMPLE, "10KiB", **QUICK)
    assert caught.value.smallest_bytes > 10 * 1024
    with pytest.raises(rk.OptionError, match="did you mean 'solver'"):
        rk.Rockmate(net(), SAMPLE, "60%", solvers="auto")


def test_plans_are_kept_in_files(tmp_path, monkeypatch):
    first = rk.Rockmate(net(), SAMPLE, "60%", **QUICK)
    path = first.save_plan(tmp_path / "plan.json")
    monkeypatch.setenv("RK_CACHE_DIR", str(tmp_path / "elsewhere"))
    torch._dynamo.reset()
    again = rk.Rockmate.load_plan(path, net(), SAMPLE)
    assert again.expect_mem == first.expect_mem
    assert not list((tmp_path / "elsewhere").glob("costs-*")), "operators were measured"
    with pytest.raises(rk.OptionError, match="plan of another step"):
        rk.Rockmate.load_plan(path, net(), SAMPLE[:64])
    path.write_text("{}")
    with pytest.raises(rk.OptionError, match="is no plan of rk"):
        rk.Rockmate.load_plan(path, net(), SAMPLE)


def test_nothing_is_run_to_make_a_plan(tmp_path):
    model = net()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    rk.plan(model, SAMPLE, "70%", **QUICK)
    rk.graphs(model, SAMPLE)
    rk.export(model, SAMPLE, tmp_path / "model.pt")
    assert torch.equal(state, torch.get_rng_state())
    assert equal(list(before.values()), list(model.state_dict().values()))
    assert all(one.grad is None for one in model.parameters())


def test_a_plan_and_its_report(tmp_path):
    plan = rk.plan(net(), SAMPLE, "60%", **QUICK)
    assert plan.peak <= plan.budget < plan.base_peak
    assert max(size for _, size in plan.before) == plan.base_peak
    assert max(size for _, size in plan.after) == plan.peak
    extra = sum(node.runs - 1 for node in plan.nodes)
    assert extra == len(plan.after) - len(plan.before) > 0
    assert plan.recomputed and 0 <= plan.bound <= plan.overhead
    page = plan.report(tmp_path / "plan.html").read_text()
    assert plan.recomputed[0].name in page and 'id="before"' in page
    assert "default-src 'none'" in page, "the page asks nothing from elsewhere"


def test_graphs_of_every_stage(tmp_path, monkeypatch):
    graphs = rk.graphs(net(), SAMPLE, "60%", **QUICK)
    assert list(graphs) == ["raw", "dataflow", "simplified", "blocks", "costed", "scheduled"]
    for stage, graph in graphs.items():
        assert f"#rk.stage<{stage}>" in str(graph)
    assert "rk.run again" in str(graphs.scheduled) and "peripheries=2" in graphs.scheduled.dot()
    assert graphs.raw.dot().startswith("digraph")
    with pytest.raises(rk.OptionError, match=".svg, .pdf, .png"):
        graphs.raw.render(tmp_path / "raw.bmp")
    with pytest.raises(AttributeError, match="there are raw"):
        _ = graphs.lowered
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(rk.CompileError, match="apt install graphviz"):
        graphs.raw.render(tmp_path / "raw.svg")


def test_graphs_list_classes():
    graphs = rk.graphs(net(), SAMPLE)
    assert graphs.simplified.classes() == []
    classes = graphs.blocks.classes()
    layers = next(members for members in classes if len(members) > 1)
    assert len(layers) >= 4 and all(name.split(".")[0].isdigit() for name in layers), classes
    assert graphs.costed.classes() == classes


def test_a_step_without_a_budget_has_no_schedule():
    with pytest.raises(AttributeError, match="blocks, costed, and with a budget scheduled"):
        _ = rk.graphs(net(), SAMPLE).scheduled


@pytest.mark.parametrize(
    ("stage", "said"), [("scheduled", "takes a plan"), ("planned", "no stage 'planned'")]
)
def test_a_stage_that_no_pass_leads_to_is_refused(stage, said):
    with pytest.raises(rk.OptionError, match=said):
        rk.graphs(net(), SAMPLE).raw.at(stage)


def test_graphs_are_drawn(tmp_path):
    files = rk.graphs(net(), SAMPLE).render(tmp_path)
    assert all(b"<svg" in file.read_bytes() for file in files)


def test_large_steps_are_folded(tmp_path):
    layers = (nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Tanh()) for _ in range(24))
    graphs = rk.graphs(nn.Sequential(*layers), torch.randn(8, 16), reproducible=True)
    for stage in ("raw", "simplified", "costed"):
        text = graphs[stage].dot()
        assert text.count("shape=folder") >= 5 and text.count("[label=") < 200, stage
        assert "like 0" in text or "like 1" in text, "folded ones say what they are like"
    chosen = graphs.simplified.dot(["5"])
    assert '"5.1' in chosen and '"6.1' not in chosen
    with pytest.raises(rk.OptionError, match="no block or module 'x' is drawn; there are 0, 1"):
        graphs.simplified.dot(["x"])
    for kind in ("svg", "pdf", "png"):
        assert graphs.simplified.render(tmp_path / f"step.{kind}").stat().st_size > 1000


def test_drawing_has_an_end(tmp_path, monkeypatch):
    from rk._report import stages

    monkeypatch.setattr(stages, "SECONDS", 1e-3)
    with pytest.raises(rk.CompileError, match="dot was stopped: after 0.001 s"):
        rk.graphs(net(), SAMPLE).simplified.render(tmp_path / "step.svg")
    assert not list(tmp_path.glob("*step*"))


def test_exports_are_traces(tmp_path):
    model = net()
    loaded = torch.jit.load(rk.export(model, SAMPLE, tmp_path / "model.pt"))
    assert loaded.training
    torch.manual_seed(0)
    expected = model(SAMPLE)
    torch.manual_seed(0)
    assert torch.equal(loaded(SAMPLE), expected)
    with pytest.raises(rk.CompileError, match="tensors only, not str"):
        rk.export(model, (SAMPLE, "x"), tmp_path / "other.pt")


def test_verify_measures_both_sides():
    seen = rk.verify(net(), SAMPLE, "60%", **QUICK)
    assert seen, str(seen)
    assert seen.measured_peak <= seen.budget < seen.baseline_peak
    assert seen.bit_equal and seen.steps == 3 and "as promised" in str(seen)


def test_verify_notices_other_bits(monkeypatch):
    from rk._graph import random_state

    monkeypatch.setattr(
        random_state, "replay", lambda _state, _device, run, *args, **more: run(*args, **more)
    )
    seen = rk.verify(net(0.5), SAMPLE, "60%", **QUICK)
    assert not seen and seen.different and "NOT as promised" in str(seen)


def test_verify_notices_a_peak_above_the_budget(monkeypatch):
    from rk._codegen import emit

    original = emit.Emitter.__init__

    def keep_all(self, step, runs, **options):
        original(self, step, [run for run in runs if not run[1]], **options)

    monkeypatch.setattr(emit.Emitter, "__init__", keep_all)
    seen = rk.verify(net(), SAMPLE, "60%", **QUICK)
    assert not seen.within_budget and not seen


def test_graphs_as_json_are_planned():
    from rk import _rk

    nodes = [{"id": 0, "kind": "fwd", "name": "a", "time": 1, "bytes": 8, "deps": []}]
    nodes += [{"id": 1, "kind": "bwd", "name": "b", "time": 1, "bytes": 8, "deps": [0]}]
    text = json.dumps({"name": "two", "nodes": nodes})
    answer = json.loads(_rk.plan(text, budget="100%"))
    assert answer["schedule"] == [0, 1] and answer["peak"] == 16 and answer["status"] == "optimal"
    with pytest.raises(rk.BudgetError, match="'b' holds the peak") as caught:
        _rk.plan(text, budget="15")
    assert caught.value.smallest_bytes == 16 and caught.value.budget_bytes == 15
    assert "nothing below" not in str(caught.value), "it would repeat the budget"
    with pytest.raises(rk.BudgetError, match="nothing below 16 bytes can work"):
        _rk.plan(text, budget="3")
    with pytest.raises(rk.OptionError, match="graph: 1:"):
        _rk.plan("[", budget="15")
    with pytest.raises(rk.OptionError, match="solver"):
        _rk.plan(text, budget="15", solver="simplex")


def test_exports_are_what_rk_import_reads(tmp_path):
    from rk import _rk

    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[3] / "target"))
    tool = target / "release" / "rk-import"
    if not tool.exists():
        pytest.skip(f"{tool} is not built")
    model, step = rk.export(net(), SAMPLE, tmp_path / "model.pt"), tmp_path / "step.mlir"
    libraries = {**os.environ, "LD_LIBRARY_PATH": str(Path(torch.__file__).parent / "lib")}
    command = [tool, model, "--input", "f32[128,64]", "-o", step]
    subprocess.run(command, check=True, capture_output=True, env=libraries)
    answer = json.loads(_rk.rematerialize(step.read_text(), budget="70%", time_limit="1s"))
    assert answer["peak"] <= answer["budget"] < answer["base_peak"]


def test_a_model_that_nothing_trains_is_not_verified():
    with pytest.raises(rk.OptionError, match="no parameter of it requires a gradient"):
        rk.verify(net().requires_grad_(False), SAMPLE, "60%", **QUICK)
