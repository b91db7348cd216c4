"""A folder of JSON files, each written whole or not at all, read back by the hash of what it answers."""

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
    """What was written under this name; None when nothing was, or when it cannot be read."""
    try:
        return json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None


def write(folder: Path, name: str, value: Any) -> None:
    """Writes an answer. A folder that cannot be written to is no error: the answer is then found anew each
    time.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(value, file)
            os.replace(part, folder / f"{name}.json")
        except BaseException:
            os.unlink(part)
            raise
