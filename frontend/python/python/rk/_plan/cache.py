"""A folder of JSON files, each written whole or not at all, read back by the hash of what it answers.

The first line of a file is the digest of the rest: what is damaged is passed over, and found anew. Among
what is kept is code that is executed, so nothing is read from a folder that somebody else can write to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import warnings
from pathlib import Path
from typing import Any

from rk._plan.files import save


def key_of(*parts: str) -> str:
    """The name of the file that answers these questions."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:40]


def read(folder: Path, name: str) -> Any | None:
    """What was written under this name; None when nothing was, or when it is damaged, or when it may be
    somebody else's.
    """
    try:
        if not _is_private(folder):
            return None
        digest, text = (folder / f"{name}.json").read_text().split("\n", 1)
        return json.loads(text) if digest == _digest(text) else None
    except (OSError, ValueError):
        return None


def _is_private(folder: Path) -> bool:
    """Whether nobody but the user, and the administrator, can have written what is in a folder."""
    about = folder.stat()
    if about.st_uid not in (os.geteuid(), 0):
        _tell(folder, "it belongs to another user")
    elif about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _tell(folder, f"others can write to it (`chmod go-w {folder}` ends that)")
    else:
        return True
    return False


_TOLD: set[Path] = set()


def _tell(folder: Path, reason: str) -> None:
    if folder in _TOLD:
        return
    _TOLD.add(folder)
    warnings.warn(
        f"rk: nothing is read from the folder of plans {folder}, because {reason}, and what it holds would "
        "be executed. Plans are made anew; the option cache_dir or RK_CACHE_DIR names another folder",
        stacklevel=2,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, name: str, value: Any) -> None:
    """Writes an answer. A folder that cannot be written to is no error: the answer is then found anew each
    time.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(value)
        save(folder / f"{name}.json", f"{_digest(text)}\n{text}".encode(), mode=0o600)
