"""The first example of docs/python.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_example_runs():
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    scope = {}
    exec(compile(example, str(PAGE), "exec"), scope)
    assert scope["loss"].isfinite()
