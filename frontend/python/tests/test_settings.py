"""PyTorch's switches that decide which kernels run. cuDNN's exist without a GPU, they only switch nothing."""

import pytest
import torch
from codegens import needs_runtime

from rk._graph import settings
from rk.errors import RkError

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def named(text):
    return dict(word.split("=") for word in text.split(" "))


@pytest.fixture(autouse=True)
def restored():
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    yield
    cudnn.benchmark, cudnn.deterministic = before
    torch._C._set_mkldnn_enabled(True)


@needs_runtime
def test_python_and_the_runtime_read_the_same():
    from rk import _rk_runtime

    assert settings.text(CPU) == _rk_runtime.settings("cpu")
    ours, theirs = named(settings.text(GPU)), named(_rk_runtime.settings("cuda"))
    facts = ("cudnn_version", "gpu")  # rk's runtime asks the GPU that it has opened
    assert list(ours) == list(theirs)
    assert [ours[name] for name in ours if name not in facts] == [
        theirs[name] for name in theirs if name not in facts
    ]
    torch._C._set_mkldnn_enabled(False)
    assert settings.text(CPU) == _rk_runtime.settings("cpu")


def test_every_change_is_seen():
    before = settings.text(CPU)
    torch._C._set_mkldnn_enabled(False)
    assert settings.text(CPU) == before.replace("mkldnn=on", "mkldnn=off")
    torch.backends.cudnn.deterministic = True
    assert "cudnn_deterministic=on" in settings.text(GPU)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert "flash=off efficient=off math=on cudnn_attention=off" in settings.text(GPU)


def test_a_pass_runs_with_the_switches_of_its_plan():
    cudnn = torch.backends.cudnn
    cudnn.benchmark = True
    assert "cudnn_benchmark=off" in settings.text(GPU)
    seen = []

    def run(args):
        seen.append((cudnn.benchmark, cudnn.deterministic))
        raise ValueError

    kept = settings.Kernels(GPU).around(run)
    cudnn.deterministic = True
    with pytest.raises(ValueError):
        kept([])
    assert seen == [(False, False)]
    assert (cudnn.benchmark, cudnn.deterministic) == (True, True)
    assert kept._boxed_call
    assert settings.Kernels(CPU).around(run) is run


@needs_runtime
def test_a_step_for_other_kernels_is_refused(monkeypatch, tmp_path):
    from rk import _rk_runtime
    from rk._codegen import native

    texts = []
    original = native.Program._machine
    monkeypatch.setattr(native.Program, "_machine", lambda self: texts.append(self._text) or original(self))
    options = {"codegen": "rk", "cache_dir": str(tmp_path)}
    torch.compile(torch.nn.Linear(8, 8), backend="rk", options=options)(torch.randn(4, 8)).sum().backward()
    torch._C._set_mkldnn_enabled(False)
    with pytest.raises(RkError, match="mkldnn was on and is off"):
        _rk_runtime.Machine(texts[0], 1)
