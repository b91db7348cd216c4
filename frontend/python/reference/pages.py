"""Pages with a generated part: it stands between two comments, and what is around it is written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from reference import api, dialect, tools

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "reference"
BEGIN, END = "<!-- generated: cargo xtask docs -->\n", "<!-- /generated -->"


@dataclasses.dataclass(frozen=True)
class Page:
    """A page, and who writes its generated part."""

    path: Path
    part: Callable[[], str]

    def text(self) -> str:
        """The page as it should be."""
        head, rest = self.path.read_text().split(BEGIN)
        _, tail = rest.split(END)
        return f"{head}{BEGIN}\n{self.part().strip()}\n\n{END}{tail}"


PAGES = {
    "python-api": Page(FOLDER / "python-api.md", api.text),
    "command-lines": Page(FOLDER / "command-lines.md", tools.text),
    "dialect": Page(FOLDER / "dialect.md", lambda: dialect.text(ROOT)),
}
