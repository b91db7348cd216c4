"""The command lines: what ``--help`` of each tool prints.

The tools are those of ``$RK_TOOLS``, or of the checkout's build.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
TOOLS = ("rk-import", "rk-opt", "rk-translate", "rk-run", "rk-plan", "rk-simrd", "rk-lsp-server", "rk-bench")


def folder() -> Path:
    """Where the built tools are."""
    target = os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target")
    return Path(os.environ.get("RK_TOOLS") or Path(target) / "release")


def are_built() -> bool:
    """Whether there are tools to ask."""
    return all((folder() / name).exists() for name in TOOLS)


def text() -> str:
    """A section for each tool, with its subcommands."""
    return "\n\n".join(_section(name) for name in TOOLS)


def _section(name: str) -> str:
    whole = _help(name)
    parts = [f"## {name}", f"```text\n{whole}\n```"]
    parts += [f"### {name} {verb}\n\n```text\n{_help(name, verb)}\n```" for verb in _verbs(whole)]
    return "\n\n".join(parts)


def _verbs(whole: str) -> list[str]:
    """The subcommands that a help text lists."""
    _, _, behind = whole.partition("\nCommands:\n")
    listed, _, _ = behind.partition("\n\n")
    found = re.findall(r"^  (\w[\w-]*)", listed, re.MULTILINE)
    return [verb for verb in found if verb != "help"]


def _help(*command: str) -> str:
    asked = [folder() / command[0], *command[1:], "--help"]
    # clap takes the width from the terminal, and from nowhere without one.
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
