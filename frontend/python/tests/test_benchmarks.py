"""Benchmarks whose tables are made by hand, in miniature."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from benchmarks import layers, performance  # noqa: E402
from benchmarks.cells import llama  # noqa: E402


def test_layers_beside_the_whole_model(monkeypatch):
    monkeypatch.setattr(layers, "SHARES", (0.7,))
    make = lambda: llama(layers=4, batch=2, length=64)  # noqa: E731
    monkeypatch.setitem(layers.MODELS, "llama", (make, lambda model: model.layers))
    (row,) = layers.rows("llama")
    assert re.fullmatch(r"\| llama \| 70 % (\| -?[\d.]+ % \| 0\.\d{3} / 0\.\d{3} ){2}\|", row), row


def test_measured_steps_are_kept_and_put_on_a_page(tmp_path):
    rows = list(performance.measured("gpt2-1", (100, 80, 5), rounds=1))
    whole, tight, none = rows
    assert whole.planned == 0 and tight.planned > 0 and tight.bound <= tight.planned
    assert whole.ratio > 0 and 0 < tight.peak <= 100
    assert none.ratio is None and none.why == "no plan"
    performance.write(tmp_path / "rows.csv", rows)
    assert performance.table(performance.read(tmp_path / "rows.csv")) == performance.table(rows)
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- measured -->\nold\n<!-- /measured -->\nbelow\n")
    performance.insert(page, performance.table(rows))
    assert re.fullmatch(
        r"above\n<!-- measured -->\n(\|.*\|\n){5}<!-- /measured -->\nbelow\n", page.read_text()
    )
