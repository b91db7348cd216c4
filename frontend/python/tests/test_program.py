"""The code of a plan is written once; another process takes it from disk, and computes the same bits."""

from __future__ import annotations

import base64
import json
import marshal
import os

import pytest
import torch
from test_bits import Mixed, equal, train
from test_hard_places import Chain, Counting, InPlace, Normed, Tied, floats, images, tokens
from torch import nn

from rk._codegen import emit, program, source
from rk._graph import capture
from rk._plan import cache, costs


class Several(Chain):
    """Outputs that are views of each other, an index, the input itself, and a constant inside."""

    def forward(self, x):
        y = self.layers[0](x) + torch.tensor([2.0, float("inf")]).clamp(max=1.0).sum()
        return super().forward(y) + y[:, ::2].t().square().mean() + y.argmax(1).float().mean()


CASES = {
    "mixed": (Mixed, lambda: (torch.randn(16, 3, 8, 8),)),
    "dropout": (lambda: Chain(lambda: nn.Dropout(0.4)), floats),
    "norm": (Normed, images),
    "tied": (Tied, tokens),
    "in place": (InPlace, floats),
    "buffers": (lambda: Counting(lambda buffer: buffer), floats),
    "several": (Several, floats),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:rk. no schedule")
def test_code_from_disk_computes_the_same_bits(case, tmp_path, monkeypatch):
    make, inputs = CASES[case]
    options = {"budget": "70%", "on_infeasible": "best", "cache_dir": str(tmp_path)}
    compiled = lambda model: torch.compile(model, backend="rk", options=options)  # noqa: E731
    first = train(make, inputs, compiled, 3)
    assert len(list(tmp_path.glob("code-*.json"))) == 1
    monkeypatch.setattr(emit, "Emitter", None)
    assert equal(first, train(make, inputs, compiled, 3))


def test_values_are_freed_as_by_the_written_graphs(tmp_path, monkeypatch):
    """Nothing around the code holds what it has used up."""
    options = {"budget": "60%", "cache_dir": str(tmp_path)}
    peaks = []
    for written in (False, False, True):
        if written:
            monkeypatch.setattr(program, "suits", lambda step: False)
        torch._dynamo.reset()
        run = torch.compile(Chain(lambda: nn.Dropout(0.3), 10, 128), backend="rk", options=options)
        run(torch.randn(256, 128)).backward()
        with costs.Allocations() as allocations:
            run(torch.randn(256, 128)).backward()
        peaks.append(allocations.peak)
    # The code also says which call its saved values belong to, in two numbers.
    assert peaks[0] == peaks[1] and 0 <= peaks[0] - peaks[2] <= 16


def test_damaged_code_is_written_anew(tmp_path):
    make, inputs = CASES["dropout"]
    compiled = lambda model: torch.compile(  # noqa: E731
        model, backend="rk", options={"budget": "80%", "cache_dir": str(tmp_path)}
    )
    first = train(make, inputs, compiled, 2)
    (file,) = tmp_path.glob("code-*.json")
    whole = file.read_text()
    middle = whole.index('"code"') + 200
    file.write_text(whole[:middle] + ("A" if whole[middle] != "A" else "B") + whole[middle + 1 :])
    assert equal(first, train(make, inputs, compiled, 2))
    assert file.read_text() == whole


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_code_is_not_executed_from_a_folder_that_others_can_write_to(tmp_path, mode):
    make, inputs = CASES["dropout"]
    compiled = lambda model: torch.compile(  # noqa: E731
        model, backend="rk", options={"budget": "80%", "cache_dir": str(tmp_path)}
    )
    first = train(make, inputs, compiled, 2)
    (file,) = tmp_path.glob("code-*.json")
    about = json.loads(file.read_text().split("\n", 1)[1])
    about["forward"]["code"] = base64.b64encode(marshal.dumps(compile("1 / 0", "<theirs>", "exec"))).decode()
    cache.write(tmp_path, file.stem, about)
    with pytest.raises(Exception, match="division by zero"):
        train(make, inputs, compiled, 2)
    tmp_path.chmod(mode)
    with pytest.warns(UserWarning, match=r"others can write to it \(`chmod go-w"):
        assert equal(first, train(make, inputs, compiled, 2))


def test_a_folder_that_rk_makes_is_the_users_alone(tmp_path):
    before = os.umask(0)
    try:
        cache.write(tmp_path / "a" / "b", "name", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert cache.read(tmp_path / "a" / "b", "name") == 1


def test_a_folder_of_another_user_is_not_read(tmp_path, monkeypatch):
    cache.write(tmp_path, "name", 1)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    if os.getuid() == 0:
        # What the administrator has made is read.
        os.chown(tmp_path, 4321, -1)
    with pytest.warns(UserWarning, match="it belongs to another user"):
        assert cache.read(tmp_path, "name") is None


def test_code_that_calls_what_has_no_name_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "address", lambda value: ("object", value))
    run = torch.compile(Chain(), backend="rk", options={"budget": "60%", "cache_dir": str(tmp_path)})
    run(*floats()).backward()
    assert not list(tmp_path.glob("code-*")) and list(tmp_path.glob("plan-*"))


def test_the_code_is_dumped(tmp_path):
    run = torch.compile(Chain(), backend="rk", options={"budget": "60%", "dump_dir": str(tmp_path)})
    run(*floats()).backward()
    forward, backward = sorted(tmp_path.glob("code-*.py"), reverse=True)
    assert "torch.ops.aten.addmm.default" in forward.read_text()
    assert "tangents_1" in backward.read_text()


def test_what_backward_is_given_has_the_name_that_its_code_reads():
    """Otherwise printing the pass renames arguments one after the other, and may overwrite one unread."""
    parts = (nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU()) for _ in range(3))
    step = capture.step_of(nn.Sequential(*parts), torch.randn(2, 3, 4, 4))
    first = range(1, len(step.lines) + 1)
    again = [line for line in first[: step.boundary - 1] if not step.runs_once(step.lines[line - 1])]
    forward, hand_over = [(line, False) for line in first[: step.boundary - 1]], [(step.boundary, False)]
    runs = forward + [(line, True) for line in again] + hand_over + [(line, True) for line in again[:3]]
    runs += [(line, False) for line in first[step.boundary :]]
    for graph in (emitter := emit.Emitter(step, runs)).forward, emitter.backward:
        assert all(node.target == node.name for node in graph.find_nodes(op="placeholder"))
