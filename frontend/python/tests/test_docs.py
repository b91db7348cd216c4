"""The first example of a page runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_example_runs(page):
    example = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]
    scope = {}
    exec(compile(example, page, "exec"), scope)
    assert scope["loss"].isfinite()
