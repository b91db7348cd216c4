"""What was found out about a graph is kept on disk, and a graph is read the same with it and without."""

from __future__ import annotations

import json

import pytest
import torch
from loaned_models import Attention, Dropped, Shifted
from test_hard_places import Chain, Counting, InPlace, Normed, floats, images
from test_program import Several
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

from rk._compile import backend
from rk._graph import fingerprint, normalize, reading
from rk._plan import cache

CASES = {
    "shifted": (Shifted, lambda: (torch.randn(128, 64),)),
    "attention": (Attention, lambda: (torch.randint(50, (8, 16)), torch.ones(8, 16, dtype=torch.long))),
    "checkpointed": (Dropped, lambda: (torch.randn(32, 64),)),
    "norm": (Normed, images),
    "dropout": (lambda: Chain(lambda: nn.Dropout(0.4)), floats),
    "in place": (InPlace, floats),
    "buffers": (lambda: Counting(lambda buffer: buffer.clone()), floats),
    "several": (Several, floats),
}


def told(step):
    """All of a step that its reading has found."""
    lines = [
        f"{node.format_node()} {node.meta.get('partitioner_tag')} {node.meta.get('rk_copy')} "
        f"{node.meta.get('saved_tensor_with_no_vc_check')} {fingerprint._sizes(node.meta.get('val'))}"
        for node in step.gm.graph.nodes
    ]
    names = lambda nodes: sorted(one.name for one in nodes)  # noqa: E731
    loans = step.loans
    lent = names(loans.arguments), names(loans.viewed), loans.outputs, loans.checked_outputs
    return lines, lent, step.own_gradients(), step.fingerprint, step.analysis.is_known


def steps_of(make, inputs, folder, monkeypatch, times, found=None):
    """The steps that are read while a model is compiled so many times; ``found`` gets them."""
    found = [] if found is None else found
    read = reading.read

    def seen(*args, **about):
        step = read(*args, **about)
        found.append(told(step))
        return step

    monkeypatch.setattr(backend.reading, "read", seen)
    torch.manual_seed(0)
    model, given = make(), inputs()
    for _ in range(times):
        torch._dynamo.reset()
        options = {"budget": "100%", "time_limit": "0.2s", "cache_dir": str(folder)}
        torch.compile(model, backend="rk", options=options)(*given)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_graph_is_read_the_same_with_answers_from_disk(case, tmp_path, monkeypatch):
    first, second = steps_of(*CASES[case], tmp_path, monkeypatch, 2)
    assert not first[-1] and second[-1]
    assert first[:-1] == second[:-1]


def _not_asked(*_):
    raise AssertionError("what is on disk was found out anew")


def test_answers_from_disk_are_what_a_graph_is_read_by(tmp_path, monkeypatch):
    """Otherwise the test above could not fail."""
    (first,) = steps_of(*CASES["shifted"], tmp_path, monkeypatch, 1)
    (file,) = tmp_path.glob("analysis-*.json")
    answers = json.loads(file.read_text().split("\n", 1)[1])
    assert answers["small"]
    cache.write(tmp_path, file.stem, {**answers, "small": []})
    monkeypatch.setattr(normalize, "_repeated", _not_asked)
    monkeypatch.setattr(normalize.loans, "small", _not_asked)
    # Nothing that is made of another graph fits this one.
    monkeypatch.setattr(backend.Compiled, "_refuse_rehearsals", _not_asked)
    with pytest.raises(BackendCompilerFailed, match="found out anew"):
        steps_of(*CASES["shifted"], tmp_path, monkeypatch, 1, second := [])
    (second,) = second
    assert len(second[0]) == len(first[0]) - len(answers["small"])


def test_another_reader_finds_out_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "_reader", lambda: "another")
    (first,) = steps_of(*CASES["norm"], tmp_path, monkeypatch, 1)
    monkeypatch.undo()
    (second,) = steps_of(*CASES["norm"], tmp_path, monkeypatch, 1)
    assert not first[-1] and not second[-1]
    assert len(list(tmp_path.glob("analysis-*.json"))) == 2


class Looked(nn.Module):
    """Its gradient is sparse."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8, sparse=True)

    def forward(self, x):
        return self.table(x).square().mean()


def test_what_cannot_be_planned_is_refused_every_time(tmp_path):
    for _ in range(2):
        torch._dynamo.reset()
        run = torch.compile(Looked(), backend="rk", options={"budget": "90%", "cache_dir": str(tmp_path)})
        with pytest.raises(BackendCompilerFailed, match="is a tensor of layout sparse_coo"):
            run(torch.randint(50, (4,))).backward()
    assert not list(tmp_path.glob("analysis-*.json"))


def test_regions_of_checkpoints_are_told_apart():
    """Two graphs that differ in nothing but in which region a value is."""
    hashes = set()
    for regions in ((1, 1), (7, 7), (1, 2)):
        graph = torch.fx.Graph()
        x = graph.placeholder("primals_1")
        x.meta["val"] = torch.empty(4)
        for region in regions:
            x = graph.call_function(torch.ops.aten.sin.default, (x,))
            x.meta = {"val": torch.empty(4), "recompute": None, "ac_graph_id": region}
        graph.output((x,))
        gm = torch.fx.GraphModule({}, graph)
        hashes.add(fingerprint.Fingerprint(gm, 1, set(), True).whole)
    assert len(hashes) == 2
