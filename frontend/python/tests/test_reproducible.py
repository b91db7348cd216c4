"""``reproducible=True``: nothing that a plan depends on is read from a clock."""

import time

import pytest
import torch
from torch import nn

import rk
from rk._plan import costs, roofline


class Block(nn.Module):
    """Products, a pointwise chain, and fused attention."""

    def __init__(self, width=32):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = nn.functional.scaled_dot_product_attention(x, x, x)
        return x + self.inner(x)


def sample():
    return torch.randn(2, 2, 16, 32)


def plan_of(tmp_path, name, **options):
    model = nn.Sequential(*(Block() for _ in range(4)))
    return rk.graphs(model, sample(), budget="70%", cache_dir=str(tmp_path / name), **options)


@pytest.fixture
def _a_slow_machine(monkeypatch):
    """Every look at the clock of Python costs more than the one before."""
    passed = iter(range(1, 10**9))
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 0.01 * next(passed) ** 2)


def test_a_plan_is_the_same_whatever_the_clock_says(tmp_path, request):
    usual = plan_of(tmp_path, "usual").scheduled.text
    request.getfixturevalue("_a_slow_machine")
    assert plan_of(tmp_path, "slow").scheduled.text == usual
    measured = plan_of(tmp_path, "measured", reproducible=False).scheduled.text
    assert 'rk.cost_model = "measured"' in measured and measured != usual


def test_what_computes_more_takes_longer(tmp_path):
    calls = {}
    text = plan_of(tmp_path, "calls").raw.text
    for line in text.splitlines():
        if "rk.aten" in line and "cost <" in line:
            name = line.split('"')[1]
            calls[name] = max(calls.get(name, 0), int(line.split("cost <")[1].split(" ")[0]))
    launch = int(roofline.CPU.launch * 1e9)
    product = 2 * (2 * 2 * 16) * 32 * 128 / roofline.CPU.throughput * 1e9
    assert calls["aten.addmm.default"] >= launch + int(product)
    attention = "aten._scaled_dot_product_flash_attention_for_cpu"
    assert calls[f"{attention}_backward.default"] > calls[f"{attention}.default"] > launch


def test_measured_costs_and_those_of_the_model_are_kept_apart():
    device = torch.device("cpu")
    assert costs.versions(device) != costs.versions(device, "roofline")
