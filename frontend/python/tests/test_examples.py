"""The scripts in examples/ start, and those that train run on small sizes and learn."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SIZES = {
    "train_classifier": {"network": "resnet18", "budget": "90%", "steps": 4, "batch": 8, "size": 64},
    "train_gpt2": {"budget": "2MiB", "steps": 4, "layers": 4, "width": 32, "length": 64, "batch": 4},
    "train_unet": {"budget": "70%", "steps": 4, "batch": 4, "size": 16, "channels": 4},
}


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_every_script_says_how_it_is_used(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert not ended.value.code
    assert "usage: " in capsys.readouterr().out


@pytest.mark.parametrize("name", SIZES)
def test_training_scripts(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    losses = script.train(**SIZES[name])
    assert len(losses) == 4 and min(losses[1:]) < losses[0]
