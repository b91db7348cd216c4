"""Benchmarks whose tables are made by hand, in miniature."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from benchmarks import layers  # noqa: E402
from benchmarks.cells import llama  # noqa: E402


def test_layers_beside_the_whole_model(monkeypatch):
    monkeypatch.setattr(layers, "SHARES", (0.7,))
    make = lambda: llama(layers=4, batch=2, length=64)  # noqa: E731
    monkeypatch.setitem(layers.MODELS, "llama", (make, lambda model: model.layers))
    (row,) = layers.rows("llama")
    assert re.fullmatch(r"\| llama \| 70 % (\| -?[\d.]+ % \| 0\.\d{3} / 0\.\d{3} ){2}\|", row), row
