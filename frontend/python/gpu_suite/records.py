"""What was measured, as JSON lines: one file per chapter, one line per row, written when the row is done."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Key = tuple[str, str, str]


class Records:
    """The rows of this run and of earlier ones."""

    def __init__(self, out: Path, earlier: Iterable[Path], about: dict[str, Any]) -> None:
        """``about`` goes into every line."""
        self.out, self.about = out, about
        self.known: dict[Key, dict[str, Any]] = {}
        out.mkdir(parents=True, exist_ok=True)
        for folder in (*earlier, out):
            for line in read(folder):
                self.known[key_of(line)] = line

    def has(self, key: Key) -> bool:
        """Whether the row was measured, and did not fail."""
        return key in self.known and not self.known[key].get("error")

    def peaks(self, chapter: str, model: str, name: str) -> dict[str, int] | None:
        """The peak that a row reached, with the gradients of parameters and without them, and what was there
        before.
        """
        line = self.known.get((chapter, model, name), {})
        names = "peak_bytes", "peak_without_gradients_bytes", "allocated_before_bytes"
        return {one: line[one] for one in names} if all(one in line for one in names) else None

    def keep(self, key: Key, numbers: dict[str, Any]) -> None:
        """Writes a row."""
        chapter, model, row = key
        line = {
            "chapter": chapter,
            "model": model,
            "row": row,
            **self.about,
            "at": int(time.time()),
            **numbers,
        }
        self.known[key] = line
        with (self.out / f"{chapter}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows in a folder; half a line at the end of a file is one that was cut off."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def key_of(line: dict[str, Any]) -> Key:
    """What a row is known by."""
    return line["chapter"], line["model"], line["row"]


def commit_here() -> str:
    """The commit that is checked out, with ``+`` if files differ from it; ``unknown`` without git."""
    try:
        folder = Path(__file__).parent
        head = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            ["git", "status", "--porcelain", "-uno"], cwd=folder, capture_output=True, text=True, check=True
        )
        return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
