"""One run of the suite: which rows, in which order, in which processes, until when."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpu_suite import records
from gpu_suite.process import Lost, Process
from gpu_suite.rows import LOCK, Row

SPARE_SECONDS = 5.0
"""Kept for ending processes and writing the last row."""
MEASURING_SECONDS = 30.0
"""For peaks and times of a row that is prepared."""
MOST_LOST = 3
"""How often the process of a group may be lost before its rows are given up."""
CARD_GIGABYTES = 70.0
"""Of a card's memory: what rows may take that are prepared at once. The smallest card that is known."""
OTHERS_GIGABYTES = 10.0
"""Of a card's memory: what processes take for themselves."""


class Run:
    """Rows that are still missing, and what is left of the time."""

    def __init__(self, given: argparse.Namespace) -> None:
        """``given`` is the command line."""
        # It loads PyTorch, which takes seconds of the time that is given.
        self.start = time.monotonic()
        from gpu_suite.chapters import CHAPTERS

        self.given = given
        self.names = [one for one in given.chapters.split(",") if one] or list(CHAPTERS)
        unknown = [one for one in self.names if one not in CHAPTERS]
        if unknown:
            sys.exit(f"gpu_suite: error: no chapter {unknown[0]!r}; there are {', '.join(CHAPTERS)}")
        models = [one for one in given.models.split(",") if one]
        parts = [one for one in given.rows.split(";") if one]
        rows = itertools.chain.from_iterable(CHAPTERS[one].rows(models) for one in self.names)
        self.rows = [row for row in rows if not parts or any(part in row.name for part in parts)]
        self.failed = 0
        if given.list:
            return
        about = {"commit": given.commit or records.commit_here(), "rehearsal": given.rehearse}
        self.records = records.Records(given.out, given.resume, about)
        self.room = CARD_GIGABYTES
        self.slow = 5.0 if given.rehearse else 1.0
        """A small machine is slower than what a card is in."""
        self.cache = Path(os.environ.get("RK_SUITE_CACHE") or Path(tempfile.gettempdir()) / "rk-gpu-suite")

    def left(self) -> float:
        """Seconds in which a row may still run."""
        return self.start + 60 * self.given.minutes - SPARE_SECONDS - time.monotonic()

    def say(self, text: str) -> None:
        """Progress, with the time."""
        print(f"{time.monotonic() - self.start:6.1f} s  {text}", file=sys.stderr, flush=True)

    def all(self) -> bool:
        """Measures what there is time for; whether no row failed."""
        missing = [row for row in self.rows if not self.records.has(row.key)]
        self.say(f"{len(missing)} of {len(self.rows)} rows are missing; {self.left():.0f} s")
        for name in self.names:
            rows = [row for row in missing if row.chapter == name]
            if name == "comparison":
                self._comparison(rows)
            else:
                self._in_groups(rows)
        unmet = [row for row in self.rows if row.key not in self.records.known]
        self.say(f"done; {self.failed} rows failed, {len(unmet)} were not begun")
        return self.failed == 0

    def _in_groups(self, rows: list[Row]) -> None:
        """A process for each network, side by side where a row says that others may run beside it."""
        for together in (True, False):
            chosen = [row for row in rows if row.about.get("together", False) is together]
            groups = [list(some) for some in _grouped(chosen)]
            if together and self.given.ahead > 1:
                with ThreadPoolExecutor(max(len(groups), 1)) as pool:
                    list(pool.map(self._group, groups))
            else:
                for group in groups:
                    self._group(group)

    def _group(self, rows: list[Row]) -> None:
        process, lost = None, 0
        try:
            for row in rows:
                if lost == MOST_LOST:
                    self._skip(row, f"its process was lost {lost} times")
                elif not self._fits(row.estimate):
                    self._skip(row, f"{row.estimate:.0f} s are more than is left")
                else:
                    try:
                        process = process or self._started(row)
                        about = process.ready(self.left())
                        process.begin(row)
                        self._keep(row, {**about, **process.answer(min(row.limit * self.slow, self.left()))})
                    except Lost as why:
                        lost += 1
                        self._fails(row, {"error": f"lost: {why}"})
                        if process is not None:
                            process.close()
                        process = None
        finally:
            if process is not None:
                process.close()

    def _comparison(self, rows: list[Row]) -> None:
        """Rows are prepared several at once, and measured one alone."""
        while rows:
            batch = self._next(rows)
            if not batch:
                for row in rows:
                    self._skip(row, "the time is over, or what it needs is missing")
                return
            rows = [row for row in rows if row not in batch]
            self._batch(batch)

    def _next(self, rows: list[Row]) -> list[Row]:
        """What is prepared next: what there is memory for."""
        batch: list[Row] = []
        room = self.room
        for row in rows:
            if len(batch) == max(self.given.ahead, 1):
                break
            if self._resolved(row) and self._fits(row.estimate) and row.gigabytes <= room:
                room -= row.gigabytes
                batch.append(row)
        return batch

    def _batch(self, batch: list[Row]) -> None:
        if len(batch) > 1:
            self.say(f"preparing {', '.join(f'{row.model} {row.name}' for row in batch)}")
        until = time.monotonic() + min(max(row.limit for row in batch) * self.slow, self.left())
        running: list[tuple[Row, Process | None, str]] = []
        try:
            for row in batch:
                running.append((row, self._started(row), ""))
            for place, (row, process, _) in enumerate(running):
                try:
                    self._learn(process.ready(until - time.monotonic()))
                    process.begin(row)
                except Lost as why:
                    running[place] = (row, process, str(why))
            prepared = []
            for row, process, why in running:
                answer: dict[str, Any] = {"error": f"lost: {why}"} if why else {}
                try:
                    answer = answer or process.answer(until - time.monotonic())
                except Lost as lost:
                    answer = {"error": f"lost: {lost}"}
                if "error" in answer:
                    process.close()
                    self._fails(row, {**(process.machine or {}), **answer})
                else:
                    prepared.append((row, process, answer["prepared"]))
            for row, process, seconds in prepared:
                try:
                    process.go()
                    numbers = process.answer(
                        min(MEASURING_SECONDS * self.slow, self.left() + SPARE_SECONDS / 2)
                    )
                except Lost as lost:
                    numbers = {"error": f"lost: {lost}"}
                process.close()
                numbers = {"prepared_seconds": seconds, "beside": len(batch) - 1, **numbers}
                (self._fails if "error" in numbers else self._keep)(row, {**process.machine, **numbers})
        finally:
            for _, process, _ in running:
                process.close()

    def _learn(self, machine: dict[str, Any]) -> None:
        if "card_gigabytes" in machine:
            self.room = machine["card_gigabytes"] - OTHERS_GIGABYTES

    def _fits(self, seconds: float) -> bool:
        return self.left() > (1.0 if self.given.rehearse else seconds)

    def _resolved(self, row: Row) -> bool:
        """Tells a row the peak that it must keep, if it is known."""
        if not row.needs:
            return True
        peaks = self.records.peaks(row.chapter, row.model, row.needs[0])
        if peaks is None:
            return False
        if "part" in row.about:
            before, peak = peaks["allocated_before_bytes"], peaks["peak_bytes"]
            row.about["on_device_bytes"] = before + int(peak * row.about["part"])
        else:
            row.about["other_bytes"] = peaks["peak_without_gradients_bytes"]
        return True

    def _skip(self, row: Row, why: str) -> None:
        self.say(f"{' / '.join(row.key)}: not measured, {why}")

    def _keep(self, row: Row, numbers: dict[str, Any]) -> None:
        self.records.keep(row.key, numbers)
        self.failed += "error" in numbers
        self.say(f"{' / '.join(row.key)}: {_told(numbers)}")

    def _fails(self, row: Row, numbers: dict[str, Any]) -> None:
        """What the end of the run has cut off says nothing."""
        if self.left() > 1 or not numbers["error"].startswith("lost: no answer"):
            self._keep(row, numbers)
        else:
            self._skip(row, "the time was over")

    def _started(self, row: Row) -> Process:
        device = "cpu" if self.given.rehearse else "cuda"
        settings = {"device": device, "small": self.given.rehearse, "threads": self.given.threads}
        environment = {
            "RK_CACHE_DIR": str(self.cache / "rk"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.cache / "inductor"),
            "TRITON_CACHE_DIR": str(self.cache / "triton"),
            "PYTHONUNBUFFERED": "1",
            LOCK: str(self.cache / "card.lock"),
            # What is prepared at once shares the machine.
            "TORCHINDUCTOR_COMPILE_THREADS": str(max((os.cpu_count() or 1) // max(self.given.ahead, 1), 2)),
        }
        if row.chapter == "smoke":
            environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        return Process(row.chapter, settings, environment, self.given.out / "children.log")


def _grouped(rows: list[Row]) -> list[list[Row]]:
    """Rows by their network, in the order in which networks come first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return list(groups.values())


def _told(numbers: dict[str, Any]) -> str:
    """A row in one line."""
    if "error" in numbers:
        return numbers["error"][:300]
    words = []
    if "step_ms" in numbers:
        words.append(f"{numbers['step_ms']:.2f} ms")
    for name, title in (("peak_bytes", "peak"), ("peak_without_gradients_bytes", "without gradients")):
        if name in numbers:
            words.append(f"{title} {numbers[name] / 2**20:.1f} MiB")
    if "budget_bytes" in numbers:
        words.append(f"budget {numbers['budget_bytes'] / 2**20:.1f} MiB")
    for name in ("reproducible", "bit_equal", "within_budget", "unmeasured_calls", "sum_ratio"):
        if name in numbers:
            words.append(f"{name} {numbers[name]}")
    if "overhead_predicted" in numbers:
        words.append(f"predicted +{numbers['overhead_predicted']:.1f} %")
    for name in ("batch", "steps_done", "planning_seconds"):
        if name in numbers:
            words.append(f"{name} {numbers[name]}")
    return f"{', '.join(words)} ({numbers.get('row_seconds', 0):.1f} s)"
