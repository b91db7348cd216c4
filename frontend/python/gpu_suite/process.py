"""The parent's end of :mod:`gpu_suite.child`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from gpu_suite.rows import Row

START_SECONDS = 90.0
"""Until PyTorch is imported and the card is there."""


class Lost(Exception):
    """The process died, or did not answer in time."""


class Process:
    """Measures the rows of one network."""

    def __init__(
        self, chapter: str, settings: dict[str, Any], environment: dict[str, str], log: Path
    ) -> None:
        """Starts it; it says what machine it found when it is ready (:meth:`ready`)."""
        self.answers: queue.Queue[str | None] = queue.Queue()
        self.machine: dict[str, Any] | None = None
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpu_suite.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **environment},
                # Its helpers (Inductor's compilers) end with it.
                start_new_session=True,
            )
        threading.Thread(target=self._read, daemon=True).start()
        self._send({"chapter": chapter, **settings})

    def _read(self) -> None:
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def _send(self, value: dict[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(value) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost(self._how()) from None

    def _how(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(2)
            name = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
            return f"the process ended {name}"
        return "the process closed its answers"

    def answer(self, seconds: float) -> dict[str, Any]:
        """What it says next; Lost when it says nothing."""
        try:
            line = self.answers.get(timeout=max(seconds, 0.01))
        except queue.Empty:
            raise Lost(f"no answer in {seconds:.0f} s") from None
        if line is None:
            raise Lost(self._how())
        return json.loads(line)

    def ready(self, seconds: float) -> dict[str, Any]:
        """What machine it is on."""
        if self.machine is None:
            self.machine = self.answer(min(seconds, START_SECONDS))
        return self.machine

    def begin(self, row: Row) -> None:
        """Asks for a row, and does not wait."""
        self._send(dataclasses.asdict(row))

    def go(self) -> None:
        """Lets it measure what it has prepared."""
        self._send({"go": True})

    def close(self) -> None:
        """Ends it and what it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
