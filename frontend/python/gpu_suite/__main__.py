"""``python -m gpu_suite --out DIR``: measures rk on a GPU, chapter by chapter, within the minutes given.

Each row is written as soon as it is there. Rows run in processes of their own; one that hangs or dies costs
its row and nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_suite.run import Run


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What a command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m gpu_suite", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-numbers"), help="where the JSON lines go")
    parser.add_argument("--minutes", type=float, default=9.0, help="it never runs longer (default: 9)")
    parser.add_argument("--chapters", default="", help="separated by commas; all, unless given")
    parser.add_argument("--models", default="", help="networks, separated by commas; all, unless given")
    parser.add_argument(
        "--rows", default="", help="only rows with one of these in their name, separated by semicolons"
    )
    parser.add_argument(
        "--resume", type=Path, action="append", default=[], help="rows in this folder are not run"
    )
    parser.add_argument("--commit", help="of the code, where git does not know it")
    parser.add_argument("--tools", type=Path, help="the folder of rk-bench, for the chapter lowered")
    parser.add_argument("--rehearse", action="store_true", help="everything in miniature on the CPU")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch, when it rehearses")
    parser.add_argument("--ahead", type=int, default=6, help="rows compiled ahead at once; 0: none")
    parser.add_argument("--list", action="store_true", help="print the rows and their estimates in seconds")
    return parser.parse_args(words)


def main() -> None:
    """Runs it."""
    given = parsed()
    if given.tools is not None:
        os.environ["RK_SUITE_TOOLS"] = str(given.tools.resolve())
    run = Run(given)
    if given.list:
        for row in run.rows:
            print(f"{row.chapter}\t{row.model}\t{row.name}\t{row.estimate:.0f}")
        return
    sys.exit(0 if run.all() else 1)


if __name__ == "__main__":
    main()
