import json
import os
import signal
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent
sys.path.insert(0, str(FOLDER))

from gpu_suite import __main__, comparison, process, records, rows, run  # noqa: E402


def suite(monkeypatch, out, **more):
    """What the command line runs, in this process: only its children load PyTorch anew."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER / "python"), str(FOLDER)]))
    monkeypatch.setenv("RK_SUITE_CACHE", str(out / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["--out", str(out), "--rehearse", "--threads", "1", "--ahead", "1"]
    words += [word for name, value in more.items() for word in (f"--{name}", str(value))]
    return run.Run(__main__.parsed(words))


def test_rows_are_kept_and_not_measured_again(tmp_path, monkeypatch, capsys):
    rows = "reference, f32;fx 60%, f32;fx 40% offload;rk.verify 60%;rk.memory_budget 60%"
    asked = {"chapters": "smoke", "models": "mlp", "rows": rows, "minutes": 8}
    done = suite(monkeypatch, tmp_path, **asked).all()
    lines = {line["row"]: line for line in records.read(tmp_path)}
    assert done, [line.get("traceback") for line in lines.values()]
    assert len(lines) == 5 and lines["reference, f32"]["reproducible"] is True
    assert lines["fx 60%, f32"]["bit_equal"] is lines["fx 60%, f32"]["within_budget"] is True
    moved = lines["fx 40% offload, f32"]
    assert moved["bit_equal"] is moved["within_budget"] is True
    assert moved["transfers"] > 0 and 0 < moved["host_peak_bytes"] <= moved["planned_host_bytes"]
    assert lines["rk.verify 60%"]["bit_equal"] is lines["rk.memory_budget 60%"]["bit_equal"] is True
    assert all(
        line["commit"] and line["torch"] and line["card"] and line["rehearsal"] for line in lines.values()
    )
    capsys.readouterr()
    assert suite(monkeypatch, tmp_path / "second", **asked, resume=tmp_path).all()
    assert "0 of 5 rows are missing" in capsys.readouterr().err
    assert records.read(tmp_path / "second") == []


def test_no_row_is_begun_when_the_time_is_over(tmp_path, monkeypatch, capsys):
    suite(monkeypatch, tmp_path, chapters="smoke", models="mlp", minutes=0.05).all()
    assert "more than is left" in capsys.readouterr().err
    assert records.read(tmp_path) == []


def test_what_the_end_of_a_run_cuts_off_is_no_result(tmp_path, monkeypatch):
    row = next(comparison.rows(["unet"]))
    for minutes, kept in ((0.01, 0), (8, 1)):
        one = suite(monkeypatch, tmp_path / str(kept), chapters="comparison", minutes=minutes)
        one._fails(row, {"error": "lost: no answer in 5 s"})
        assert len(records.read(tmp_path / str(kept))) == kept


def test_rows_without_compilers_come_first():
    names = [row.name for row in comparison.rows([])]
    first = next(place for place, name in enumerate(names) if "compile" in name)
    assert names[:first].count("rk fx 50%") == comparison.MOST
    assert len(set(row.key for row in comparison.rows([]))) == len(names)


def _process(tmp_path):
    environment = {"PYTHONPATH": os.pathsep.join([str(FOLDER / "python"), str(FOLDER)])}
    settings = {"device": "cpu", "small": True, "threads": 1}
    return process.Process("lowered", settings, environment, tmp_path / "log")


def test_a_row_that_fails_says_why_and_one_that_hangs_is_lost_and_nothing_else(tmp_path):
    one = _process(tmp_path)
    try:
        assert one.ready(300)["torch"]
        one.begin(rows.Row("lowered", "gpt2", "x", {"name": "gpt2"}, 1, 1))
        assert "no folder with rk-bench" in one.answer(60)["error"]
        one.begin(rows.Row("lowered", "gpt2", "x", {"hang": 60}, 1, 1))
        with pytest.raises(process.Lost, match="no answer in 1 s"):
            one.answer(1)
    finally:
        one.close()
    assert one.process.returncode == -signal.SIGKILL


def test_a_row_that_dies_is_lost(tmp_path):
    one = _process(tmp_path)
    try:
        one.begin(rows.Row("lowered", "gpt2", "x", {"crash": 3}, 1, 1))
        one.ready(300)
        with pytest.raises(process.Lost, match="ended with status 3"):
            one.answer(60)
    finally:
        one.close()
    assert one.process.returncode == 3


def test_half_a_line_at_the_end_is_no_row(tmp_path):
    kept = records.Records(tmp_path, [], {"commit": "c"})
    peaks = {"peak_bytes": 5, "peak_without_gradients_bytes": 4, "allocated_before_bytes": 3}
    kept.keep(("smoke", "mlp", "one"), peaks)
    with (tmp_path / "smoke.jsonl").open("a") as file:
        file.write(json.dumps({"chapter": "smoke"})[:-4])
    again = records.Records(tmp_path / "more", [tmp_path], {})
    assert again.has(("smoke", "mlp", "one")) and again.peaks("smoke", "mlp", "one") == peaks
