"""A process that judges programs: reads one request a line, writes one answer a line, until its input ends.

A request is a program and names of ways; importing PyTorch takes seconds, so a worker is used for many.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import os
import sys
import tempfile
import time
from typing import Any

FREEZE_EVERY = 50
"""Programs. What stays of one is little, and after each freeze rk walks through the whole process, once."""


def main() -> None:
    """Serves the standard input."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What a program prints must not be taken for an answer.
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("RK_CACHE_DIR", folder)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        import torch

        torch.set_num_threads(1)
        torch._dynamo.config.allow_rnn = True
        _leave_out_what_is_only_told(torch)
        from campaigns.judge import judge
        from campaigns.program import Program, generate

        # What a first program imports and fills stays.
        judge(generate(0), ["fx least", "rk least", "online"])
        gc.set_threshold(20_000, 20, 50)
        _freeze()
        print("ready", file=answers)
        for number, line in enumerate(sys.stdin, 1):
            request = json.loads(line)
            program = Program.from_json(request["program"])
            start = time.perf_counter()
            outcomes = [dataclasses.asdict(one) for one in judge(program, request["ways"])]
            answer = {"outcomes": outcomes, "seconds": time.perf_counter() - start}
            print(json.dumps(answer), file=answers)
            if number % FREEZE_EVERY == 0:
                _freeze()


def _freeze() -> None:
    """The collector need not walk through what has stayed until now, several times for every program."""
    gc.collect()
    gc.freeze()


def _leave_out_what_is_only_told(torch: Any) -> None:
    """A quarter of the time of compiling a small program is spent on logs that nobody reads, and on measuring
    how long Dynamo's guards take.
    """
    import torch._dynamo.guards

    logging.disable(logging.CRITICAL)
    torch._logging._internal.trace_log.handlers.clear()
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0


if __name__ == "__main__":
    main()
