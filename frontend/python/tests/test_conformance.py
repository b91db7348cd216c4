"""The page of conformance: what it says was found, and some of its kinds are found again."""

import json
from pathlib import Path

import pytest
import torch

from campaigns.conformance import outcome, page
from campaigns.conformance.kinds import KINDS, Kind

PAGE = Path(__file__).parents[3] / "docs/conformance.md"
RECORDS = {file.stem: json.loads(file.read_text())["kinds"] for file in PAGE.with_suffix("").glob("*.json")}
AGAIN = ("`torch.autograd.Function`", "`torch.cond`", "sparse gradients", "autocast", "graph breaks")


def test_the_page_is_written_from_the_records(tmp_path):
    copy = tmp_path / "conformance.md"
    copy.write_text(PAGE.read_text())
    page.write(copy, PAGE.with_suffix(""))
    assert copy.read_text() == PAGE.read_text()


def test_a_page_that_is_not_there_is_begun(tmp_path):
    page.write(tmp_path / "new.md", PAGE.with_suffix(""))
    assert page.table(RECORDS).splitlines()[-1] in (tmp_path / "new.md").read_text()


def test_what_was_said_can_be_read():
    found = [about.get("says", "") for kinds in RECORDS.values() for about in kinds.values()]
    assert not [text for text in found if text.endswith("...")], "cut off"
    said = PAGE.read_text().split("```text\n")[1:]
    lines = [line for block in said for line in block.split("```")[0].splitlines()]
    assert lines and max(map(len, lines)) <= page.WIDTH


@pytest.mark.parametrize("version", sorted(RECORDS))
def test_no_kind_is_a_fault(version):
    found = RECORDS[version]
    assert set(found) == {kind.name for kind in KINDS}
    assert not [name for name, about in found.items() if about["came"] not in outcome.FINE]
    assert all(about["says"] for about in found.values() if about["came"] == "refused")


@pytest.mark.parametrize("start", AGAIN)
def test_a_kind_is_found_again(start):
    (kind,) = [one for one in KINDS if one.name.startswith(start)]
    found = outcome.of(kind)
    recorded = RECORDS.get(torch.__version__.split("+")[0])
    assert found["came"] in outcome.FINE
    assert recorded is None or found["came"] == recorded[kind.name]["came"]


def test_a_process_that_dies_is_told_and_the_rest_goes_on():
    dies = Kind("no such kind", lambda compile: [])
    needs_a_gpu = next(one for one in KINDS if one.cuda)
    found = dict(outcome.of_each([dies, needs_a_gpu]))
    assert found["no such kind"]["came"] == "crash (1)" and "crash (1)" not in outcome.FINE
    assert found[needs_a_gpu.name]["came"] in outcome.FINE


def test_other_bits_are_told():
    calls = []

    def differs(compile):
        calls.append(compile)
        return [torch.full((2,), float(len(calls)))]

    assert outcome.of(Kind("differs", differs)) == {"came": "other bits"}
