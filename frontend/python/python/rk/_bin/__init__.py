"""The command line tools that the wheel brings: programs of their own, which take Python's place."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def _start(name: str) -> NoReturn:
    program = Path(__file__).parent / name
    if not program.exists():
        sys.exit(f"{name} comes with rk's wheel; in a checkout, `cargo build --release` makes it")
    os.execv(program, [name, *sys.argv[1:]])


def opt() -> NoReturn:
    """Starts ``rk-opt``."""
    _start("rk-opt")


def plan() -> NoReturn:
    """Starts ``rk-plan``."""
    _start("rk-plan")


def simrd() -> NoReturn:
    """Starts ``rk-simrd``."""
    _start("rk-simrd")
