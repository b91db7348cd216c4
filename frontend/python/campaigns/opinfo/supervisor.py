"""Gives items to a worker, starts another one when it dies or takes too long, and keeps all records."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from campaigns.opinfo.families import Item

START_SECONDS = 900.0
"""PyTorch and its databases are loaded within this."""
ITEM_SECONDS = 90.0
"""A sample must get on within this."""
ITEMS_PER_WORKER = 300
"""Dynamo's memories, and those of the operators, are given back with the process."""
TOGETHER = -2
"""The number of what stands for all samples of an item."""
OWN = ("eager", "aot_eager", "start", "trace")
"""Where PyTorch itself is at work: a death there is not rk's."""


class Worker:
    """One process, and the last thing that it said it was about."""

    def __init__(self) -> None:
        """Starts it."""
        command = [sys.executable, "-X", "faulthandler", "-m", "campaigns.opinfo.worker"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=False,
            bufsize=0,
        )
        self.served, self.rest = 0, b""

    def run(self, item: Item, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """The records of an item; and if the process has died over it, what it was about, as a record."""
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.served += 1
        records: list[dict[str, Any]] = []
        at = {"at": "start", "sample": -1}
        while True:
            starting = self.served == 1 and at["sample"] == -1
            message = self._next(START_SECONDS if starting else ITEM_SECONDS)
            if message is None:
                return records, self._died(item, at)
            if "record" in message:
                records.append(message["record"])
            elif "done" in message:
                return records, None
            else:
                at = message

    def _next(self, seconds: float) -> dict[str, Any] | None:
        """The next message; None if the process has died, or was killed because it took too long."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                self.timed_out = not ready
                self.stop()
                return None
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def _died(self, item: Item, at: dict[str, Any]) -> dict[str, Any]:
        code = self.process.returncode
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        way = at["at"]
        reason = "no answer in time" if self.timed_out else f"the process died of {name}"
        if way in OWN:
            ways = {"aot_eager": {"kind": "torch", "reason": f"{way}: {reason}"}}
        else:
            ways = {way: {"kind": "slow" if self.timed_out else "crash", "reason": reason}}
        return {"item": item.key, "sample": at["sample"], "ways": ways}

    def stop(self) -> None:
        """Ends the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def known(path: Path) -> set[str]:
    """The keys of items that a file of records has all of."""
    if not path.exists():
        return set()
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {line["done"] for line in lines if "done" in line}


class Crew:
    """A worker at a time; another one when it has died or served long enough."""

    def __init__(self, **asked: Any) -> None:
        """Starts nobody yet. ``asked`` goes with every item: ``samples``, ``ways``, ``dynamo``."""
        self.asked = asked
        self.worker: Worker | None = None

    def records(self, item: Item) -> list[dict[str, Any]]:
        """What becomes of the samples of an item. One that a worker died over is not tried again, the others
        are.
        """
        asked = {**self.asked, "item": dataclasses.asdict(item), "together": True, "after": -1}
        found: list[dict[str, Any]] = []
        while True:
            if self.worker is None:
                self.worker = Worker()
            records, died = self.worker.run(item, asked)
            found += records
            if died is not None or self.worker.served >= ITEMS_PER_WORKER:
                self.stop()
            if died is None:
                return found
            if died["sample"] != TOGETHER:
                found.append(died)
                if died["sample"] < 0:
                    return found
                asked["after"] = died["sample"]
            asked["together"] = False

    def stop(self) -> None:
        """Sends the worker home."""
        if self.worker is not None:
            self.worker.stop()
        self.worker = None


def run(items: Iterable[Item], out: TextIO, end: float, **asked: Any) -> bool:
    """Runs items until the clock (``time.monotonic``) shows ``end``; whether all of them ran."""
    crew = Crew(**asked)
    try:
        for count, item in enumerate(items):
            if time.monotonic() > end:
                return False
            records = crew.records(item)
            for one in (*records, {"done": item.key}):
                out.write(json.dumps(one) + "\n")
            out.flush()
            kinds = {about["kind"] for one in records for about in one["ways"].values()}
            told = " ".join(sorted(kinds - {"equal", "unlike eager"}))
            print(f"{count} {item.key} {len(records)} {told}", file=sys.stderr, flush=True)
        return True
    finally:
        crew.stop()
