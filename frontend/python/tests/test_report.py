"""A plan's page and its exports: what is stacked adds up, viewers find what they read, nothing is fetched."""

from __future__ import annotations

import collections
import json
import pickle
import re
import shutil
import subprocess
import warnings

import pytest
import torch
from torch import nn

import rk
from rk._report import timeline
from rk._run import group


@pytest.fixture(scope="module")
def plan():
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2)) for _ in range(6))
    model = nn.Sequential(*blocks, nn.BatchNorm1d(64))
    return rk.plan(model, torch.randn(128, 64), "60%", time_limit="1s")


@pytest.fixture(scope="module")
def page(plan, tmp_path_factory):
    return plan.report(tmp_path_factory.mktemp("page") / "plan.html").read_text()


def test_categories_add_up_to_what_the_judge_counts(plan):
    before, after = timeline.of(plan)
    for side, runs in ((before, plan.before), (after, plan.after)):
        stacks = side.stacks()
        assert [sum(parts) for parts in zip(*stacks.values(), strict=True)] == [size for _, size in runs]
    assert not any(before.stacks()["recomputed"]) and max(after.stacks()["recomputed"]) > 0
    assert max(after.stacks()["saved"]) < max(before.stacks()["saved"])
    assert sum(life.size for life in after.during(after.peak())) == plan.peak


def test_the_page_needs_nothing_from_elsewhere(page):
    assert not re.search(r"(src|href)=|url\(|fetch\(|@import", page) and "default-src 'none'" in page
    assert "<!--" not in page and len(page.encode()) < 4 * 2**20


def test_the_page_has_every_value_for_its_hints(plan, page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    for name, side in zip(("before", "after"), timeline.of(plan), strict=True):
        shown = data["sides"][name]
        assert len(shown["starts"]) == len(shown["runs"]) + 1 and len(shown["lives"]) == len(side.lives)
        assert shown["memory"] == [size for _, size in side.runs]
        assert [one[:5] for one in shown["lives"]] == [
            [one.name, one.size, one.node, one.first, one.last] for one in side.lives
        ]
    assert {module for _, module in data["nodes"]} >= {"0.0", "5.2", "6"}
    assert page.count("<details>") >= 7, "modules unfold"


def test_the_page_says_what_the_plan_says(plan, page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    curve = data["curve"]
    assert curve["own"][0] == data["budget"] == plan.budget
    assert curve["own"][1] == pytest.approx(plan.overhead, abs=1e-5)
    budgets = [budget for budget, _, _ in curve["points"]]
    assert plan.budget in budgets and budgets[-1] == plan.base_peak and budgets[0] == curve["smallest"]
    assert all(0 <= bound <= more for _, more, bound in curve["points"]) and curve["points"][-1][1] == 0
    assert "The smallest budget with a plan is" in page and f"found by {plan.solver}" in page
    assert all(node.operators[-1] in page for node in plan.recomputed)


def test_the_curve_can_be_left_out(plan, tmp_path):
    data = plan.report(tmp_path / "plain.html", points=0).read_text()
    assert "The smallest budget" not in data
    with pytest.raises(rk.OptionError, match="whole number from 0 to 1000"):
        plan.report(tmp_path / "no.html", points=-1)
    assert not (tmp_path / "no.html").exists()


def test_names_of_a_model_are_text(tmp_path):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("</script><b>", nn.Linear(8, 8))

        def forward(self, x):
            return self._modules["</script><b>"](x).relu()

    told = rk.plan(Odd(), torch.randn(4, 8), "100%", time_limit="1s").report(tmp_path / "odd.html", 0)
    assert "</script><b>" not in told.read_text()


def test_the_script_is_a_program(page, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("needs node")
    library, script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert "uPlot" in library
    (tmp_path / "page.js").write_text(script)
    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True, capture_output=True)


def test_perfetto_reads_the_timeline(plan, tmp_path):
    trace = json.loads(plan.timeline(tmp_path / "step.json").read_text())
    slices = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    assert len(slices) == len(plan.before) + len(plan.after)
    assert sum(one["cat"] == "again" for one in slices) == len(plan.after) - len(plan.before)
    for one in trace["traceEvents"]:
        assert one["ph"] in ("M", "X", "C") and {"name", "pid", "tid", "args"} <= set(one)
        assert one["ph"] == "M" or one["ts"] >= 0
    counters = [sum(one["args"].values()) for one in trace["traceEvents"] if one["ph"] == "C"]
    assert max(counters) == plan.base_peak and counters[-1] == 0
    for process in (1, 2):
        mine = [one for one in slices if one["pid"] == process]
        ends = [one["ts"] + one["dur"] for one in mine]
        assert all(a <= b["ts"] + 1e-6 for a, b in zip(ends, mine[1:], strict=False)), "slices overlap"


def test_pytorchs_viewer_reads_the_timeline(plan, tmp_path):
    from torch.cuda import _memory_viz

    snapshot = pickle.loads(plan.timeline(tmp_path / "step.pickle").read_bytes())
    assert "free completed" in _memory_viz.trace(snapshot) and "<html" in _memory_viz.trace_plot(snapshot)
    live, most = {}, 0
    for event in snapshot["device_traces"][0]:
        assert {"action", "addr", "size", "stream", "frames", "time_us"} <= set(event)
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            assert live.pop(event["addr"]) == event["size"]
        most = max(most, sum(live.values()))
    assert most == plan.peak and not live
    with pytest.raises(rk.OptionError, match="neither .json"):
        plan.timeline(tmp_path / "step.txt")


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def of_a_run(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])["steps"]


@pytest.fixture
def groups():
    torch._dynamo.reset()
    group.GROUPS.clear()
    yield group.GROUPS
    group.GROUPS.clear()


@pytest.mark.parametrize("calls", [1, 2])
def test_a_run_shows_its_calls(groups, tmp_path, calls):
    model = Layers()
    for layer in model.layers:
        layer.compile(backend="rk", options={"budget": "85%"})
    for _ in range(3):
        sum(model(torch.randn(256, 64)) for _ in range(calls)).backward()
        model.zero_grad()
    found = rk.plans()
    (step,) = of_a_run(found.report(tmp_path / "run.html"))
    first, others = found
    assert first.instances == calls and others.instances == 5 * calls, (
        "the first layer's input has no gradient"
    )
    assert step["budget"] == first.budget == others.budget
    halves = [name for name, of, _ in step["moments"] if of is not None]
    ways = [name.split()[0] for name in halves]
    assert ways == [way for way in ("forward", "backward") for _ in range(6 * calls)]
    assert [int(name.rsplit(" ", 1)[1]) for name in halves] == [
        *range(1, 6 * calls + 1),
        *range(6 * calls, 0, -1),
    ]
    levels = [sum(parts) for parts in zip(*step["stacks"], strict=True)]
    assert max(levels) == first.peak <= first.budget, "what is shown is what the choice counted"
    ran = [step["plans"][of][0] for name, of, _ in step["moments"] if of is not None and "forward" in name]
    wanted = collections.Counter(first.variants) + collections.Counter(others.variants)
    assert collections.Counter(ran) == wanted and len(wanted) > 1


def test_a_run_of_one_graph_is_one_call(groups, tmp_path):
    model = Layers()
    torch.compile(model, backend="rk", options={"budget": "70%"})(torch.randn(256, 64)).backward()
    found = rk.plans()
    (step,) = of_a_run(found.report(tmp_path / "run.html"))
    assert [name.split()[0] for name, _, _ in step["moments"]] == ["forward", "backward"]
    assert max(map(sum, zip(*step["stacks"], strict=True))) == found[0].peak


def test_a_run_that_has_not_begun_says_so(groups, tmp_path):
    assert "Nothing has been planned" in rk.plans().report(tmp_path / "run.html").read_text()


def test_a_budget_that_nothing_met_is_told(groups, tmp_path):
    model = Layers()
    for layer in model.layers:
        layer.compile(backend="rk", options={"budget": 250_000, "on_infeasible": "best"})
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(torch.randn(256, 64)).backward()
    page = rk.plans().report(tmp_path / "run.html").read_text()
    assert "nothing fits: the smallest budget known to do is" in page


class Cut(nn.Module):
    """Two layers, and a graph for each."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        x = self.layers[0](x)
        torch._dynamo.graph_break()
        return self.layers[1](x)


def test_graphs_have_names_that_their_user_knows(groups, tmp_path):
    def layer():
        return nn.Sequential(nn.Linear(64, 64), nn.GELU())

    asked = {"backend": "rk", "options": {"budget": "1GiB"}}
    alone = nn.Sequential(layer(), nn.TransformerEncoderLayer(64, 2, 64, dropout=0.0))
    for one in alone:
        one.compile(**asked)
    cut = torch.compile(Cut(nn.ModuleList([layer(), layer()])), **asked)
    at = r"forward at test_report\.py:\d+"
    for model, names in (
        (alone, ["Sequential of Linear, GELU", "TransformerEncoderLayer"]),
        (cut, [rf"layers\.0 \({at}\)", rf"layers\.1 \({at}\)"]),
    ):
        group.GROUPS.clear()
        for _ in range(3):
            model(torch.randn(4, 64, 64)).square().mean().backward()
        found = rk.plans()
        known = [one.graph for one in found]
        assert all(re.fullmatch(*pair) for pair in zip(names, known, strict=True)), known
        page = found.report(tmp_path / "run.html").read_text()
        assert all(f">{one}<" in page for one in known)
