"""Every test gets a cache of its own, and Dynamo without memories."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("RK_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    torch.manual_seed(0)
