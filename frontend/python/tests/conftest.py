"""Every test gets a cache of its own, Dynamo without memories, and budgets that nobody shares yet. Times are
those of a model, so that plans do not depend on what else the machine does.
"""

from __future__ import annotations

import functools
import gc
import os
import tempfile

import pytest
import torch

import rk
from rk import _rk
from rk._run import group

PATIENCE = "1s"
"""How long is searched where nothing is found in the first moment, or the smallest budget is wanted. For a
user rk goes on for longer, mostly for nothing.
"""


@pytest.fixture(autouse=True, scope="session")
def _own_kernels():
    """Inductor's kernels of other processes may be half written, or made for another number of threads."""
    with tempfile.TemporaryDirectory(prefix="rk-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _put_aside():
    """What imports and a first compilation leave, hundreds of thousands of objects, is not walked through in
    every collection of every test: that took two fifths of the time.
    """
    torch.compile(torch.nn.Linear(1, 1), backend="aot_eager")(torch.ones(1))
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("RK_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    # Models of earlier tests that live on would share a budget of the same name.
    group.GROUPS.clear()
    group._WAITING.clear()
    monkeypatch.setattr(_rk, "rematerialize", functools.partial(_rk.rematerialize, again_at_most=PATIENCE))
    torch.manual_seed(0)
    with rk.config.patch(reproducible=True):
        yield
