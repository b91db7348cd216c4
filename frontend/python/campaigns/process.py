"""The other side of :mod:`campaigns.worker`: starts it, asks it, and ends it when it does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from campaigns.program import Program

FINDINGS = ("wrong", "crash", "over", "ungoverned", "hang", "died")
FRESH_AFTER = 300
"""Programs after which a worker is replaced: caches of PyTorch grow."""


class Worker:
    """A process that judges programs; a new one takes its place when it dies or hangs."""

    def __init__(self, limit: float, told: Path) -> None:
        """``limit``: seconds that one program may take; ``told``: the file that gets what workers print, and
        where they were when they died.
        """
        self.limit, self.told, self.judged = limit, told, 0
        self._process: subprocess.Popen[str] | None = None

    def judge(self, program: Program, names: list[str]) -> tuple[list[dict[str, str]], float]:
        """The outcomes of a program in the ways of these names, and the seconds it took."""
        if self._process is None or self.judged >= FRESH_AFTER:
            self.stop()
            self._start()
        self.judged += 1
        request = json.dumps({"program": program.to_json(), "ways": names})
        start = time.monotonic()
        answer = self._ask(request)
        seconds = time.monotonic() - start
        if answer is not None:
            read = json.loads(answer)
            return read["outcomes"], read["seconds"]
        code = self._process.poll()
        self.stop()
        verdict = "hang" if code is None else "died"
        if len(names) > 1:
            # Which of them it is: each by itself.
            each = [self.judge(program, [name])[0] for name in names]
            return [one for outcomes in each for one in outcomes], seconds
        detail = f"no answer in {self.limit:.0f} s" if code is None else f"exit code {code}"
        return [{"way": names[0], "verdict": verdict, "detail": detail}], seconds

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        environment = {
            "OMP_WAIT_POLICY": "passive",
            "KINETO_LOG_LEVEL": "99",
            **os.environ,
            "OMP_NUM_THREADS": "1",
        }
        with self.told.open("ab") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "campaigns.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                bufsize=1,
                env=environment,
                start_new_session=True,
            )
        self.judged = 0
        if self._line(max(120, self.limit)) != "ready\n":
            raise RuntimeError("the worker does not start; try python -m campaigns.worker")

    def _ask(self, request: str) -> str | None:
        try:
            print(request, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        return self._line(self.limit)

    def _line(self, seconds: float) -> str | None:
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            return None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(10)
        return line or None
