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


def test_the_trace_holds_the_step_and_its_plan(ran):
    _, artifacts = ran
    assert any("rk.aten" in line for line in artifacts["rk_step"])
    plan = json.loads("\n".join(artifacts["rk_plan"]))
    assert 0 < plan["peak"] <= plan["budget"] and plan["status"]
