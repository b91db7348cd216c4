"""``python -m campaigns.programs``: draws training programs, runs each in several ways, reports what differs.

Every program follows from its seed. Results go to a folder, one line for a program, and a campaign that is
started again with the same folder leaves out what is there. What fails is made smaller and written as a
script. What workers print, and where one was when it died, is in ``worker.log``.
Exits with 1 when there are findings.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from campaigns import process, report, ways
from campaigns.budgets import CALLER
from campaigns.program import Program, generate
from campaigns.script import script
from campaigns.shrink import shrink


class Campaign:
    """The seeds that are left, and what has been found."""

    def __init__(self, out: Path, start: int, count: int, seconds: float, about: argparse.Namespace) -> None:
        """Reads what is in the folder already."""
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.about = out, about
        self.results = out / "results.jsonl"
        self.known = report.read(self.results)
        seeds = range(start, start + count) if count else itertools.count(start)
        self.seeds: Iterator[int] = (one for one in seeds if one not in self.known)
        self.until = time.monotonic() + seconds if seconds else float("inf")
        self.lock = threading.Lock()
        self.shrunk: dict[str, int] = {}
        self.judged = 0

    def next(self) -> int | None:
        """A seed that nobody has taken yet."""
        with self.lock:
            return None if time.monotonic() > self.until else next(self.seeds, None)

    def work(self) -> None:
        """Judges programs until there are none left."""
        worker = process.Worker(self.about.limit, self.out / "worker.log")
        try:
            while (seed := self.next()) is not None:
                program = generate(seed)
                if self.about.budgets:
                    program = dataclasses.replace(program, **CALLER)
                if any(words in str(program) for words in self.about.without):
                    continue
                names = self.about.ways or ways.chosen(program, self.about.each)
                outcomes, seconds = worker.judge(program, names)
                self._keep(program, outcomes, seconds)
                for outcome in outcomes:
                    if outcome["verdict"] in process.FINDINGS:
                        self._found(worker, program, outcome)
        finally:
            worker.stop()

    def _keep(self, program: Program, outcomes: list[dict[str, str]], seconds: float) -> None:
        line = {"seed": program.seed, "seconds": round(seconds, 2), "features": sorted(program.features())}
        with self.lock, self.results.open("a") as file:
            print(json.dumps({**line, "outcomes": outcomes}), file=file)
            self.known[program.seed] = {**line, "outcomes": outcomes}
            self.judged += 1
            if self.judged % 50 == 0:
                print(f"{self.judged} programs, seed {program.seed}", file=sys.stderr)

    def _found(self, worker: process.Worker, program: Program, outcome: dict[str, str]) -> None:
        kind = f"{outcome['way'].split()[0]} {report.signature(outcome)}"
        with self.lock:
            print(
                f"{outcome['verdict']}: {outcome['way']}: {outcome['detail']}\n  {program}", file=sys.stderr
            )
            self.shrunk[kind] = self.shrunk.get(kind, 0) + 1
            if self.shrunk[kind] > self.about.shrink:
                return

        budget = outcome.get("budget")

        def fails(smaller: Program) -> bool:
            nonlocal budget
            ((one,), _) = worker.judge(smaller, [outcome["way"]])
            does = report.signature(one) == report.signature(outcome)
            budget = one.get("budget") if does else budget
            return does

        small = shrink(program, fails) if fails(program) else program
        header = f"{outcome['way']}: {outcome['verdict']}, {outcome['detail']}"
        text = script(small, ways.BY_NAME[outcome["way"]], header, budget)
        stem = f"{program.seed}-{outcome['way'].replace(' ', '-').replace('%', '')}"
        (self.out / f"{stem}.py").write_text(text)
        (self.out / f"{stem}.json").write_text(small.to_json())
        print(f"  made smaller, {stem}.py: {small}", file=sys.stderr)


def options() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.programs", description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--count", type=int, default=0, help="how many seeds; 0 for as many as the time allows"
    )
    parser.add_argument("--minutes", type=float, default=0, help="after so many no new program is begun")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--out", type=Path, required=True, help="the folder for results and scripts")
    parser.add_argument("--each", type=int, default=1, help="ways per program; 0 for all but Inductor's")
    parser.add_argument("--ways", nargs="*", choices=list(ways.BY_NAME), help="these ways only")
    parser.add_argument(
        "--without", nargs="*", default=[], help="leave out programs whose text has these words"
    )
    parser.add_argument(
        "--budgets", action="store_true", help="no caller does more than train, so every budget is checked"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a program hangs")
    parser.add_argument("--shrink", type=int, default=2, help="how many findings of a kind are made smaller")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="print the program of a seed, and do nothing else"
    )
    return parser


def main(arguments: Any = None) -> int:
    """Runs a campaign; returns the exit code."""
    about = options().parse_args(arguments)
    if about.show is not None:
        print(generate(about.show))
        return 0
    if not about.count and not about.minutes:
        about.count = 100
    campaign = Campaign(about.out, about.start, about.count, about.minutes * 60, about)
    threads = [threading.Thread(target=campaign.work) for _ in range(about.jobs)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    findings = report.summary(campaign.known.values(), sys.stdout)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
