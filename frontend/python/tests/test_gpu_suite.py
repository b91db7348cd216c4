import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent
sys.path.insert(0, str(FOLDER))

from gpu_suite import process, records, rows  # noqa: E402


def suite(out, *more):
    path = os.pathsep.join([str(FOLDER / "python"), str(FOLDER)])
    command = [
        sys.executable,
        "-m",
        "gpu_suite",
        "--out",
        str(out),
        "--rehearse",
        "--threads",
        "1",
        "--ahead",
        "1",
        *more,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "RK_SUITE_CACHE": str(out / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_rows_are_kept_and_not_measured_again(tmp_path):
    asked = (
        "--chapters",
        "smoke",
        "--models",
        "mlp",
        "--rows",
        "reference, f32;fx 60%, f32",
        "--minutes",
        "8",
    )
    done = suite(tmp_path, *asked)
    assert done.returncode == 0, done.stderr
    lines = {line["row"]: line for line in records.read(tmp_path)}
    assert lines["reference, f32"]["reproducible"] is True
    assert lines["fx 60%, f32"]["bit_equal"] is True
    assert all(
        line["commit"] and line["torch"] and line["card"] and line["rehearsal"] for line in lines.values()
    )
    again = suite(tmp_path / "second", *asked, "--resume", str(tmp_path))
    assert "0 of 2 rows are missing" in again.stderr
    assert records.read(tmp_path / "second") == []


def test_no_row_is_begun_when_the_time_is_over(tmp_path):
    done = suite(tmp_path, "--chapters", "smoke", "--models", "mlp", "--minutes", "0.05")
    assert "more than is left" in done.stderr
    assert records.read(tmp_path) == []


def _process(tmp_path):
    environment = {"PYTHONPATH": os.pathsep.join([str(FOLDER / "python"), str(FOLDER)])}
    settings = {"device": "cpu", "small": True, "threads": 1}
    return process.Process("lowered", settings, environment, tmp_path / "log")


@pytest.mark.parametrize(
    ("about", "why"), [({"crash": 3}, "ended with status 3"), ({"hang": 60}, "no answer in 1 s")]
)
def test_a_row_that_dies_or_hangs_is_lost_and_nothing_else(tmp_path, about, why):
    one = _process(tmp_path)
    try:
        assert one.ready(300)["torch"]
        one.begin(rows.Row("lowered", "gpt2", "x", about, 1, 1))
        with pytest.raises(process.Lost, match=why):
            one.answer(1 if "hang" in about else 60)
    finally:
        one.close()
    assert one.process.returncode in (3, -signal.SIGKILL)


def test_a_row_that_fails_says_why(tmp_path):
    one = _process(tmp_path)
    try:
        one.ready(300)
        one.begin(rows.Row("lowered", "gpt2", "x", {"name": "gpt2"}, 1, 1))
        assert "no folder with rk-bench" in one.answer(60)["error"]
    finally:
        one.close()


def test_half_a_line_at_the_end_is_no_row(tmp_path):
    kept = records.Records(tmp_path, [], {"commit": "c"})
    kept.keep(("smoke", "mlp", "one"), {"peak_bytes": 5})
    with (tmp_path / "smoke.jsonl").open("a") as file:
        file.write(json.dumps({"chapter": "smoke"})[:-4])
    again = records.Records(tmp_path / "more", [tmp_path], {})
    assert again.has(("smoke", "mlp", "one")) and again.peak("smoke", "mlp", "one") == 5
