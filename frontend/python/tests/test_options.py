"""Options are refused before anything is compiled, by name, with what would do."""

from __future__ import annotations

import pytest
import torch

import rk
from rk import _rk
from rk._plan import device
from rk._plan.options import Options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (4096, "4096"),
        ("2GiB", str(2 * 2**30)),
        ("500MB", "500000000"),
        ("60%", "60%"),
        ("1.5KiB", "1536"),
        ("12kB", "12000"),
        (" 62.5 % ", "62.5%"),
        ("auto", "auto"),
    ],
)
def test_budgets_are_read(given, expected):
    assert Options.parse({"budget": given}).budget == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bugdet": "2GiB"}, "no option 'bugdet'; did you mean 'budget'?"),
        ({"budget": "2GiBs"}, 'unknown unit "GiBs"; use B, KB,'),
        ({"budget": "lots"}, '"lots" is not a positive decimal number; write bytes, 2GiB or 60%'),
        ({"budget": 2.5}, "budget=2.5 is no budget"),
        ({"budget": 0}, "is zero"),
        ({"budget": "120%"}, "up to 100%"),
        ({"budget": -1}, '"-1" is not a positive decimal number'),
        ({"solver": "simplex"}, "there are auto"),
        ({"scope": "all"}, "activations, total"),
        ({"time_limit": "soon"}, "time_limit 'soon' is no duration such as 10s, 500ms, 2m or 1h"),
        ({"time_limit": 0}, "no time at all"),
        ({"time_limit": -1}, "no duration"),
        ({"time_limit": True}, "no duration"),
        ({"codegen": "c"}, "fx, inductor, rk"),
        ({"codegen": "inductor", "verify": True}, "compares bits"),
        ({"on_infeasible": "cry"}, "error, best"),
        ({"on_unplanned": "cry"}, "auto, error, warn, ignore"),
        ({"share_of": "cake"}, "step, checkpoints"),
        ({"verify": 1}, "neither True nor False"),
        ({"cache_dir": __file__}, "not a folder"),
    ],
)
def test_errors_name_the_culprit(options, words):
    with pytest.raises(rk.OptionError, match=words.replace("?", r"\?")):
        rk.compile(torch.nn.Linear(2, 2), **options)


@pytest.mark.parametrize("budget", ["2GiBs", "lots", "0", "0%", "0.5", "-1", "9" * 20, "10ZB"])
def test_a_budget_is_refused_in_the_words_of_the_pass(budget):
    with pytest.raises(rk.OptionError) as ours:
        Options.parse({"budget": budget})
    with pytest.raises(rk.OptionError) as theirs:
        _rk.run_passes("module {}", f"rematerialize{{budget={budget}}}")
    assert str(ours.value) in str(theirs.value)


@pytest.mark.parametrize(
    ("given", "seconds"), [(10, 10), (0.5, 0.5), ("500ms", 0.5), ("2m", 120), ("1 h", 3600), (None, None)]
)
def test_spans_of_time_are_read(given, seconds):
    assert Options.parse({"time_limit": given}).time_limit == seconds


def test_the_planner_is_told_in_whole_milliseconds_or_decides_itself():
    told = [Options(time_limit=limit).planning_time for limit in (None, 0.5, 1e-5)]
    assert told == ["auto", "500ms", "1ms"]


def test_offload_may_be_off():
    assert Options.parse({"offload": False}) == Options.parse({})


def test_torch_passes_the_error_on():
    model = torch.compile(torch.nn.Linear(2, 2), backend="rk", options={"budget": "2parsecs"})
    with pytest.raises(Exception, match='unknown unit "parsecs"'):
        model(torch.ones(1, 2))


@pytest.mark.parametrize("left", [-5, 0, 1, 31, 32, 33, 1000, 10**10, 2**34])
def test_what_is_left_is_rounded_down_by_at_most_a_sixteenth(left):
    rounded = device.rounded(left)
    assert 0 <= rounded <= max(left, 0) and rounded >= left * 15 / 16 - 1
