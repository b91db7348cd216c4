import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent
sys.path.insert(0, str(FOLDER))

from gpu_suite import records, tables  # noqa: E402

DOCS = FOLDER.parent.parent / "docs"
KEYS = [("comparison", "net", name) for name in ("eager", "rk fx 100%", "rk fx 50%", "rk fx 30%", "compile")]


def row(name, at=1, **numbers):
    line = {"chapter": "comparison", "model": "net", "row": name, "commit": "c1", "at": at, "card": "A"}
    if "error" not in numbers:
        ms = numbers.pop("step_ms", 100.0)
        line |= {"step_ms": ms, "step_ms_least": ms - 1, "step_ms_most": ms + 1, "first_step_seconds": 2.0}
        line |= {"peak_bytes": 300 * 2**20, "peak_without_gradients_bytes": 200 * 2**20}
    return {**line, "driver": "1", "torch": "2", "rehearsal": False, **numbers}


def table(*lines):
    page = "".join(f"<!-- {one} -->\nold\n<!-- /{one} -->\n" for one in tables.TABLES)
    page = tables.replaced(f"before\n{page}after\n", tables.newest(lines), KEYS)
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    text = page.split("<!-- comparison -->")[1].split("<!-- /comparison -->")[0]
    cells = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return text, {line[0]: dict(zip(cells[0], line, strict=True)) for line in cells[2:]}


def test_ways_are_set_against_eager_and_against_the_step_without_a_plan():
    plan = {"overhead_predicted": 9.6, "budget_bytes": 200 * 2**20, "planning_seconds": 0.5}
    text, found = table(
        row("eager"), row("rk fx 100%", step_ms=110.0), row("rk fx 50%", step_ms=121.0, **plan)
    )
    assert found["rk fx 50%"]["/ eager"] == "1.210" and found["rk fx 50%"]["/ compile"] == "–"
    assert (found["rk fx 50%"]["predicted"], found["rk fx 50%"]["measured"]) == ("9.6 %", "10.0 %")
    assert found["rk fx 100%"]["measured"] == "–"
    assert found["rk fx 30%; compile"]["peak"] == "not measured"
    assert text.count("A, driver 1, torch 2, commit c1") == 1


def test_the_newest_row_counts_and_failures_and_broken_budgets_are_shown():
    broken = {"within_budget": False, "budget_bytes": 100 * 2**20}
    old, new = row("rk fx 50%", at=2, error="Lost: a|b"), row("rk fx 50%", at=3, **broken)
    assert table(new, old)[1]["rk fx 50%"]["budget"] == "100 **exceeded**"
    on_device = row("rk fx 50%", at=3, device_budget_bytes=2**29, on_device_bytes=2**28)
    assert table(on_device, old)[1]["rk fx 50%"]["peak"] == "300 (256 on the device)"
    assert table(on_device, old)[1]["rk fx 50%"]["budget"] == "512 on the device"
    text, _ = table(old, row("rk fx 30%", rehearsal=True))
    assert r"| rk fx 50% | none: Lost: a\|b |" in text and "rk fx 100%; rk fx 30%; compile |" in text


def test_two_cards_are_named_row_by_row_and_their_times_are_not_compared():
    text, found = table(row("eager"), row("compile", card="B", commit="c2"), row("rk fx 50%", step_ms=50.0))
    assert found["compile"]["measured on another"] == "B, driver 1, torch 2, commit c2"
    assert found["eager"]["measured on another"] == ""
    assert found["compile"]["/ eager"] == found["rk fx 50%"]["/ compile"] == "–"
    assert found["rk fx 50%"]["/ eager"] == "0.500"


def test_the_page_says_where_tables_go():
    with pytest.raises(ValueError, match="no place for chapter smoke"):
        tables.replaced("<!-- smoke -->", [row("eager")], KEYS)


def test_the_page_shows_what_was_measured():
    """After new numbers or rows: ``cargo xtask gpu-tables``."""
    page = (DOCS / "benchmarks-gpu.md").read_text()
    lines = tables.newest(
        line for folder in sorted((DOCS / "gpu").iterdir()) for line in records.read(folder)
    )
    assert tables.replaced(page, lines, tables.expected()) == page


def test_numbers_are_kept_without_paths_of_a_machine():
    for path in DOCS.glob("gpu/*/*.jsonl"):
        assert '"/' not in path.read_text() and "/work" not in path.read_text(), path
