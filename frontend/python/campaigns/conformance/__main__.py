"""Runs the kinds and writes the page."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

import torch

from campaigns.conformance import outcome, page
from campaigns.conformance.kinds import KINDS


def main() -> int:
    """The command line."""
    about = argparse.ArgumentParser(prog="python -m campaigns.conformance", description=__doc__)
    about.add_argument("--only", default="", help="kinds whose name has this in it")
    about.add_argument("--page", type=Path, help="the page to write; its records lie in the folder beside it")
    about.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = about.parse_args()
    if arguments.worker:
        outcome.work(arguments.worker)
        return 0
    outcomes: page.Outcomes = {}
    for name, found in outcome.of_each([kind for kind in KINDS if arguments.only in kind.name]):
        outcomes[name] = found
        print(f"{name}: {found['came']} {found.get('says', '')}", flush=True)
    if arguments.page:
        folder = arguments.page.with_suffix("")
        page.keep(folder, torch.__version__.split("+")[0], platform.python_version(), outcomes)
        page.write(arguments.page, folder)
    return int(any(found["came"] not in outcome.FINE for found in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
