"""PyTorch's own switches for logs and traces show what rk did: ``TORCH_LOGS`` and ``TORCH_TRACE``."""

import json
import os
import subprocess
import sys

import pytest

RUN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
torch.compile(model, backend="rk", options={"budget": "100%"})(torch.randn(64, 64)).sum().backward()
"""
LESS = """
import torch
layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)] * 4
model = torch.nn.Sequential(*layers)
options = {"budget": "85%", "reproducible": True}
for _ in range(2):
    torch.compile(model, backend="rk", options=options)(torch.randn(512, 64)).sum().backward()
    torch._dynamo.reset()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What the run said, and the records of its trace, each with its text."""
    folder = tmp_path_factory.mktemp("trace")
    about = {"TORCH_LOGS": "rk", "TORCH_TRACE": str(folder), "RK_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **about}, check=True)
    records = []
    for path in folder.glob("*.log"):
        for line in path.read_text().splitlines():
            if line.startswith("\t"):
                records[-1][1].append(line[1:])
            else:
                records.append((json.loads(line[line.index("{") :]), []))
    artifacts = {about["artifact"]["name"]: text for about, text in records if "artifact" in about}
    return done.stderr, artifacts


def test_the_log_says_what_was_planned(ran):
    said, _ = ran
    assert "rk: measured" in said and "bytes (" in said and "without recomputing" in said


def test_a_plus_names_what_runs_again_and_what_was_on_disk(tmp_path):
    def said(switch):
        about = {"TORCH_LOGS": switch, "RK_CACHE_DIR": str(tmp_path / switch)}
        command = [sys.executable, "-c", LESS]
        return subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **about}, check=True
        ).stderr

    more, less = said("+rk"), said("rk")
    (again, *_) = (line.split("second runs: ")[1] for line in more.splitlines() if "second runs: " in line)
    assert "gelu" in again or "layer_norm" in again
    assert f"was on disk, in {tmp_path}" in more
    assert "second runs" not in less and "was on disk" not in less and "rk: peak" in less


def test_the_trace_holds_the_step_and_its_plan(ran):
    _, artifacts = ran
    assert any("rk.aten" in line for line in artifacts["rk_step"])
    for stage in ("dataflow", "simplified", "costed", "scheduled"):
        assert any(f"#rk.stage<{stage}>" in line for line in artifacts[f"rk_{stage}"]), stage
    assert any("rk.run" in line for line in artifacts["rk_scheduled"])
    plan = json.loads("\n".join(artifacts["rk_plan"]))
    assert 0 < plan["peak"] <= plan["budget"] and plan["status"]
