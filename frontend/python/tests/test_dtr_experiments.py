"""``python -m benchmarks.online``: cells of all ways, bits and budgets kept, goes on where it stopped."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, ImageColor

HERE = Path(__file__).parent.parent
sys.path.append(str(HERE))
from benchmarks import online, online_report  # noqa: E402

CONFIG = {
    "steps": 1,
    "ratios": [0.7],
    "models": {
        "treelstm": {"size": 3, "budgets": ["1MiB"], "largest": {"budget": "800KiB", "most": 4}},
        "unrolled_gan": {"size": 256},
    },
}


def run(folder: Path, config: object, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs it in a folder with a configuration."""
    (folder / "config.json").write_text(json.dumps(config))
    files = [
        "--config",
        folder / "config.json",
        "--json",
        folder / "cells.json",
        "--csv",
        folder / "cells.csv",
    ]
    command = [sys.executable, "-m", "benchmarks.online", *files, "--plot", folder / "cells.svg", *more]
    return subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)


def cells_of(folder: Path) -> list[dict[str, object]]:
    """Those of its file."""
    return json.loads((folder / "cells.json").read_text())["cells"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("online")
    ran = run(folder, CONFIG, "--logs", folder / "logs")
    assert ran.returncode == 0, ran.stderr
    return folder, ran


def test_every_way_has_its_cells(done):
    folder, ran = done
    cells = cells_of(folder)
    keys = [(one["model"], one["size"], one["way"], one["asked"]) for one in cells]
    assert len(set(keys)) == len(keys)
    for model, size in (("treelstm", 3), ("unrolled_gan", 256)):
        for way in ("online", "plan"):
            assert (model, size, way, "70 %") in keys
    assert ("treelstm", 3, "online", "1MiB") in keys and ("treelstm", 4, "eager", "") in keys
    good = [one for one in cells if one["outcome"] == "ok"]
    assert all(one["equal"] and one["peak"] > 0 and one["seconds"] > 0 for one in good)
    (tree,) = (
        one for one in good if (one["model"], one["way"], one["asked"]) == ("treelstm", "online", "70 %")
    )
    (eager,) = (one for one in good if (one["model"], one["size"], one["way"]) == ("treelstm", 3, "eager"))
    assert tree["recomputations"] > 0 and tree["peak"] < eager["peak"]
    with (folder / "cells.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(cells)
    assert "| treelstm | 800KiB | online |" in ran.stdout and "| unrolled_gan | 256 | eager |" in ran.stdout


def test_the_figure_is_there_twice(done):
    folder, _ = done
    drawn = (folder / "cells.svg").read_text()
    assert drawn.startswith("<svg ") and drawn.rstrip().endswith("</svg>")
    for word in (
        "treelstm, size 3",
        "unrolled_gan, size 256",
        "peak, % of eager&#x27;s",
        "eager",
        "online",
        "plan",
    ):
        assert f">{word}" in drawn, word
    for chart in ("treelstm", "unrolled_gan"):
        assert drawn.count(f">{chart}, size") == 1
    image = Image.open(folder / "cells.png").convert("RGB")
    shown = {colour for _, colour in image.getcolors(2**24)}
    wanted = {ImageColor.getrgb(colour) for colour, _ in online_report.WAYS.values()}
    assert image.width > 700 and wanted <= shown
    greys = sorted(ImageColor.getcolor(colour, "L") for colour, _ in online_report.WAYS.values())
    assert min(b - a for a, b in itertools.pairwise(greys)) > 40, "they can be told apart in grey"
    assert len({form for _, form in online_report.WAYS.values()}) == len(online_report.WAYS)


def test_an_interrupted_run_says_what_it_keeps_and_goes_on(tmp_path):
    config = {**CONFIG, "models": {"unrolled_gan": {"size": 256}, "treelstm": {"size": 3}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "benchmarks.online", "--config", tmp_path / "config.json"]
    command += ["--json", tmp_path / "cells.json"]

    def heeds_interrupts():
        # What a shell runs in the background ignores them, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=HERE, preexec_fn=heeds_interrupts, **pipes) as ran:
        while not (tmp_path / "cells.json").exists():
            assert ran.poll() is None
            time.sleep(0.01)
        ran.send_signal(signal.SIGINT)
        out, said = ran.communicate()
    kept = cells_of(tmp_path)
    assert ran.returncode == 130 and out == "" and "Traceback" not in said, said
    assert said.endswith(f"online: interrupted; {len(kept)} cells are in {tmp_path / 'cells.json'}\n"), said
    assert run(tmp_path, config).returncode == 0
    assert len(cells_of(tmp_path)) == 6 and cells_of(tmp_path)[: len(kept)] == kept


def test_cells_that_were_made_otherwise_are_shown_and_not_added_to(done, tmp_path):
    folder, ran = done
    (tmp_path / "cells.json").write_text((folder / "cells.json").read_text())
    assert run(tmp_path, CONFIG, "--threads", "2").stdout == ran.stdout
    more = run(tmp_path, {**CONFIG, "ratios": [0.7, 0.9]}, "--threads", "2")
    assert more.returncode == 1 and more.stdout == ""
    line = more.stderr.strip().splitlines()[-1]
    assert "threads 1" in line and "threads 2" in line and line.endswith("name another file with --json")
    (tmp_path / "cells.json").write_text("[]")
    (line,) = run(tmp_path, CONFIG).stderr.strip().splitlines()
    assert line.startswith("online: ") and "cells.json holds no cells of this program" in line


def test_it_says_how_long_it_takes(done):
    folder, ran = done
    count = len(cells_of(folder))
    most = online.cells_at_most(CONFIG, list(CONFIG["models"]))
    assert count <= most <= 3 * count, (count, most)
    assert f"0 cells are there, at most {most} are to come: " in ran.stderr


def test_it_goes_on_where_it_stopped(done):
    folder, ran = done
    cells = cells_of(folder)
    again = run(folder, CONFIG)
    assert again.stdout == ran.stdout and cells_of(folder) == cells
    assert "of eager" not in again.stderr, "nothing is measured"
    whole = json.loads((folder / "cells.json").read_text())
    (folder / "cells.json").write_text(json.dumps({**whole, "cells": cells[:-1]}))
    run(folder, CONFIG)
    keys = [{key: one[key] for key in ("model", "size", "way", "asked")} for one in cells]
    rest = cells_of(folder)
    assert [{key: one[key] for key in ("model", "size", "way", "asked")} for one in rest] == keys


def test_logs_are_those_of_dtrs_simulator(done):
    folder, _ = done
    logs = sorted(path.name for path in (folder / "logs").iterdir())
    assert logs == ["treelstm-3.log", "unrolled_gan-256.log"]
    first = json.loads((folder / "logs" / logs[0]).read_text().splitlines()[0])
    assert "INSTRUCTION" in first


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"models": {"vgg": {"size": 1}}}, "no model 'vgg'; there are lstm, gru"),
        ({"ratios": [1.5]}, "ratios are above 0 and at most 1"),
        ({"steps": 0}, "steps at least 1"),
        ({"models": {"lstm": {"size": 0}}}, "sizes are at least 1"),
        ({"models": {"lstm": {"size": 1, "budgets": ["much"]}}}, "much"),
        ({"models": {"lstm": {}}}, "'size'"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path, change, word):
    ran = run(tmp_path, {**CONFIG, **change})
    assert ran.returncode == 1 and ran.stdout == ""
    (line,) = ran.stderr.strip().splitlines()
    assert line.startswith("online: ") and "config.json" in line and word in line


def test_other_bits_or_a_plan_above_its_budget_are_not_kept():
    cell = online.Cell("lstm", 8, "plan", "70 %", 100, "ok", peak=100)
    assert cell.is_kept
    assert not dataclasses.replace(cell, peak=101).is_kept
    assert not dataclasses.replace(cell, way="online", equal=False).is_kept
