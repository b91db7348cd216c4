"""A folder of JSON files, each written whole or not at all, read back by the hash of what it answers.

The first line of a file is the digest of the rest: what is damaged is passed over, and found anew. Among
what is kept is code, which nothing else would check.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def key_of(*parts: str) -> str:
    """The name of the file that answers these questions."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:40]


def read(folder: Path, name: str) -> Any | None:
    """What was written under this name; None when nothing was, or when it is damaged."""
    try:
        digest, text = (folder / f"{name}.json").read_text().split("\n", 1)
        return json.loads(text) if digest == _digest(text) else None
    except (OSError, ValueError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, name: str, value: Any) -> None:
    """Writes an answer. A folder that cannot be written to is no error: the answer is then found anew each
    time.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "w") as file:
                text = json.dumps(value)
                file.write(f"{_digest(text)}\n{text}")
            os.replace(part, folder / f"{name}.json")
        except BaseException:
            os.unlink(part)
            raise
