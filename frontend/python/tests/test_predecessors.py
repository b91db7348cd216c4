"""The complete examples of Rockmate's, rk-GraphBuilder's, rotor's and DTR's own pages, and rk-GB's names.

Imports, device and sizes are changed; what is called, and how, is not. Rotor's is in test_checkpointable.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import rk
from rk import rkgb, rockmate
from rk._report.execution import Stage
from rk._report.stages import StepGraph


def network(layers=4):
    torch.manual_seed(0)
    block = (nn.Sequential(nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Dropout(0.1)) for _ in range(layers))
    return nn.Sequential(*block, nn.BatchNorm1d(32))


SAMPLE = torch.linspace(-1, 1, 64 * 32).reshape(64, 32)


def test_the_stages_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = rkgb.make_all_graphs(network(), SAMPLE, verbose=False, bool_kg=True)
    graphs = [result.B_graph, result.D_graph, result.S_graph, result.K_graph]
    assert [one.stage for one in graphs] == ["raw", "dataflow", "simplified", "costed"]
    assert graphs == [result.R, result.F, result.S, result.FB]
    bg = rkgb.Btools.make_B(network(), SAMPLE)
    sg = rkgb.Stools.D_to_S(rkgb.Dtools.B_to_D(bg), device="cpu")
    assert str(sg) == str(rkgb.D_to_S(rkgb.B_to_D(result.B_graph)))
    classes, priced, firsts = rkgb.Atools.S_list_to_K_list_eco(rkgb.Stools.cut(sg))
    assert sorted(place for places in classes for place in places) == list(range(len(priced)))
    assert classes == result.equivalent_classes and len(classes) == len(firsts) < len(priced)
    assert all(one.seconds > 0 for one in priced)
    (path,) = {rkgb.print_graph(sg, name="mine"), rkgb.Stools.print_S_graph(sg, name="mine")}
    assert path.read_bytes().startswith(b"<?xml")


def test_every_stage_is_executed(capsys):
    result = rkgb.test_rkgb(network(), SAMPLE, budget="70%", time_limit="1s")
    said = capsys.readouterr().out
    assert "rk.run again" in str(result.scheduled)
    assert all(stage in said for stage in ("raw", "dataflow", "simplified", "blocks", "costed", "scheduled"))


@pytest.mark.parametrize(
    ("stage", "find", "put"),
    [
        ("D_graph", "aten.relu.default", "aten.tanh.default"),
        ("S_graph", "1.1111111111111112", "1.25"),
        (
            "K_graph",
            'native_batch_norm.default"(%arg0, %arg1, %arg2',
            'native_batch_norm.default"(%arg0, %arg2, %arg2',
        ),
    ],
)
def test_a_stage_that_computes_something_else_is_named(stage, find, put):
    result = rkgb.make_all_graphs(network(), SAMPLE)
    graph = getattr(result, stage)
    assert find in graph.text
    result.__dict__[stage] = type(graph)(graph.stage, graph.text.replace(find, put))
    with pytest.raises(rk.VerifyError, match=f"stage {graph.stage} computes other bits"):
        list(result.executed())


IN_PLACE = """
#thin = #rk.strided<[8, 1]>
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}) -> (
    tensor<4x8xf32> {rk.role = "output", rk.name = "0"}, tensor<f32> {rk.role = "loss", rk.name = "loss"}
) attributes {rk.stage = #rk.stage<raw>} {
  %h = rk.aten "aten.sin.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = rk.aten "aten.slice.Tensor"(%h, 1, 0, 1, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x1xf32, #thin>
  %f = rk.aten "aten.fill_.Scalar"(%v, 0.5) writes(0) aliases(0)
    : (tensor<4x1xf32, #thin>) -> tensor<4x1xf32, #thin>
  %s = rk.aten "aten.sum.default"(%h, none) : (tensor<4x8xf32>) -> tensor<f32>
  return %h, %s : tensor<4x8xf32>, tensor<f32>
}
"""


def test_writes_are_executed_as_values():
    x = torch.linspace(0, 1, 32).reshape(4, 8)
    expected = x.sin()
    expected[:, 0] = 0.5
    for stage in ("raw", "dataflow", "costed"):
        graph = StepGraph("raw", IN_PLACE).at(stage)
        assert ("rk.write" in graph.text) == (stage == "dataflow")
        results = Stage(graph.text).run({"x": x.clone()}, [])
        assert torch.equal(results[0], expected) and torch.equal(results[1], expected.sum())


def test_nodes_without_operands_are_executed(capsys):
    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x + torch.arange(8, device=x.device).float().sin())

    rkgb.test_rkgb(Placed(), torch.randn(4, 8))
    assert "costed" in capsys.readouterr().out


def test_a_value_that_was_dropped_is_not_read():
    text = rkgb.make_all_graphs(network(1), SAMPLE, budget="100%", time_limit="1s").scheduled.text
    line = next(line for line in text.splitlines() if "rk.drop" in line)
    early = text.replace(line + "\n", "").replace("    %_0.0.addmm = ", line + "\n    %_0.0.addmm = ", 1)
    result = rkgb.make_all_graphs(network(1), SAMPLE)
    result.__dict__["K_graph"] = StepGraph("scheduled", early)
    with pytest.raises(rk.CompileError, match="has been dropped"):
        list(result.executed())


def test_arguments_are_rk_gbs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, scale, shift=None):
            return self.layer(x) * scale + (0 if shift is None else shift)

    x, scale, shift = torch.randn(4, 8), torch.randn(8), torch.randn(8)
    texts = {
        str(rkgb.make_B(Two(), {"x": x, "scale": scale, "shift": shift})),
        str(rkgb.make_all_graphs(Two(), [x, scale], {"shift": shift}).B_graph),
        str(rkgb.Result(Two(), (x, scale, shift)).raw_graph),
    }
    assert len(texts) == 1
    with pytest.raises(rk.OptionError, match="within a budget"):
        _ = rkgb.Result(Two(), (x, scale)).scheduled


ROCKMATE = """
import torch
from rk.rockmate import PureRockmate, Hiremate
from torchvision.models import squeezenet1_1 as resnet101

device = torch.device("cpu")

resnet = resnet101().to(device)
optimizer = torch.optim.Adam(resnet.parameters())
sample = torch.randn([4, 3, 64, 64]).to(device)
m_budget = 5 * 1024**2

if use_hiremate:
    rk_resnet = Hiremate(resnet, sample, m_budget)
else:
    rk_resnet = PureRockmate(resnet, sample, m_budget)

for data, target in dataset:
    y = rk_resnet(data)
    loss = loss_function(y, target)
    loss.backward()
    rk_resnet.backward()
    optimizer.step()
"""
"""``rk_resnet.backward()`` is of version 1, the classes are of version 2."""

GRAPH_BUILDER = """
import torch
from rk import rkgb, rockmate
from torchvision.models import resnet18

device = torch.device("cpu")
model = resnet18().to(device)
sample = torch.randn([2, 3, 64, 64]).to(device)

rkgb_result = rkgb.make_all_graphs(model,sample)

rkgb.print_all_graphs(rkgb_result,name="resnet18",render_format="pdf")

rkgb_result = rkgb.test_rkgb(model,sample)
"""

DTR = """
import torch
import rk

rk.set_memory_budget(budget)
data = rk.checkpoint(data)
target = rk.checkpoint(target)
output = model(data)
loss = criterion(output, target)
loss.backward()
data = rk.decheckpoint(data)
loss = rk.decheckpoint(loss)
target = rk.decheckpoint(target)
"""
"""How the prototype's trials run a network. Parameters need no call: the first operator takes them in."""


@pytest.mark.parametrize("use_hiremate", [False, True])
def test_the_example_of_rockmate(use_hiremate):
    drawn = torch.randn(4, 3, 64, 64), torch.arange(4)
    names = {"use_hiremate": use_hiremate, "dataset": [drawn], "loss_function": nn.functional.cross_entropy}
    with rk.config.patch(time_limit="1s"):
        exec(ROCKMATE, names)  # noqa: S102
    made = names["rk_resnet"]
    assert made.expect_mem <= names["m_budget"] and names["loss"].isfinite()
    assert all(one.grad is not None for one in names["resnet"].parameters())


def test_the_example_of_rk_gb(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(GRAPH_BUILDER, {})  # noqa: S102
    files = sorted(path.name for path in (tmp_path / "graphviz_dir").iterdir())
    letters = ("D_graph", "K_graph", "S_graph", "seq_K_graph", "seq_S_graph")
    assert files == [f"resnet18_{one}.pdf" for one in letters]


def test_the_example_of_dtr():
    model, data, target = network(), SAMPLE, torch.zeros(64, dtype=torch.long)
    names = {"budget": 2**20, "model": model, "data": data, "target": target}
    names["criterion"] = nn.functional.cross_entropy
    exec(DTR, names)  # noqa: S102
    rk.unset_memory_budget()
    assert names["loss"].isfinite() and type(names["loss"]) is torch.Tensor


def test_configurations(tmp_path):
    config = rockmate.generate_config("rockmate")
    rockmate.save_config({**config, "time_limit": "2s"}, tmp_path / "mine.json")
    again = rockmate.load_config(tmp_path / "mine.json")
    assert again == {"solver": "rockmate", "time_limit": "2s"}
    made = rockmate.from_config(network(), SAMPLE, "80%", config=again)
    assert type(made) is rk.Rockmate and made.expect_mem <= made.budget
    with pytest.raises(rk.OptionError, match="there are rotor"):
        rockmate.generate_config("offmate")
    with pytest.raises(rk.OptionError, match="holds no options"):
        rockmate.load_config(tmp_path / "absent.json")


def test_every_name_that_the_migration_page_gives_is_there():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "migration.md").read_text()
    names = set(re.findall(r"`rk\.([\w.]+)", page))
    assert len(names) >= 35
    for name in names:
        found = rk
        for part in name.split("."):
            found = getattr(found, part)
    for solver in re.findall(r'`(?:solver=)?"([\w-]+)"`', page):
        assert solver in rk.solvers() or solver == "2GiB"
    chain = rk.Checkpointable(network(1), SAMPLE)
    for name in re.findall(r"`\.(\w+)", page.partition("## rotor")[2].partition("## DTR")[0]):
        assert hasattr(chain, name) or name in ("chain", "all_values"), name
