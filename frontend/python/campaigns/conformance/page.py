"""docs/conformance.md, written from what was recorded with each version of torch."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from campaigns.conformance.kinds import KINDS

Outcomes = dict[str, dict[str, str]]
"""By kind: what came of it, what rk or PyTorch said, how many graphs were planned."""

WIDTH = 100
"""Letters in a line of a message."""
BEGIN, END = "<!-- conformance -->\n", "<!-- /conformance -->"


def keep(folder: Path, version: str, python: str, outcomes: Outcomes) -> None:
    """Puts what was found beside what was found before with this version."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{version}.json"
    known = json.loads(file.read_text())["kinds"] if file.exists() else {}
    kept = {kind.name: found for kind in KINDS if (found := outcomes.get(kind.name, known.get(kind.name)))}
    file.write_text(json.dumps({"torch": version, "python": python, "kinds": kept}, indent=1) + "\n")


def write(page: Path, folder: Path) -> None:
    """Writes the tables of the page anew."""
    files = sorted(folder.glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
    versions = {file.stem: json.loads(file.read_text())["kinds"] for file in files}
    head, rest = (page.read_text() if page.exists() else f"# Conformance\n\n{BEGIN}{END}").split(BEGIN)
    _, tail = rest.split(END)
    page.write_text(f"{head}{BEGIN}{table(versions)}\n{sentences(versions)}{END}{tail}")


def table(versions: dict[str, Outcomes]) -> str:
    """A row for each kind, a column for each version."""
    lines = [f"| kind | {' | '.join(f'torch {version}' for version in versions)} |"]
    lines.append("|---" * (1 + len(versions)) + "|")
    for kind in KINDS:
        cells = (_cell(found.get(kind.name)) for found in versions.values())
        lines.append(f"| {kind.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(found: dict[str, str] | None) -> str:
    if found is None:
        return "not run"
    if found["came"] != "equal bits":
        return found["came"]
    return "equal bits" if int(found["planned"]) else "equal bits, not planned"


def sentences(versions: dict[str, Outcomes]) -> str:
    """What was said, whole, and once for all versions in which it was the same."""
    parts = []
    for kind in KINDS:
        said: dict[str, list[str]] = {}
        for version, found in versions.items():
            if text := found.get(kind.name, {}).get("says"):
                said.setdefault(text, []).append(version)
        for text, where in said.items():
            which = "every version" if len(where) == len(versions) else f"torch {' and '.join(where)}"
            lines = textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
            parts.append(f"{kind.name}, {which}:\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)
