"""What came of one kind: equal bits, a refusal in rk's own words, PyTorch's own limit, or a fault."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import rk
from campaigns.conformance.kinds import KINDS, Kind
from campaigns.conformance.training import Compile, plain
from campaigns.judge import inner, is_refusal
from rk._codegen import bits

OPTIONS = {"budget": "60%", "on_infeasible": "best", "time_limit": "1s"}
BEST = "on_infeasible='best'"
"""Part of the warning that names a larger budget than was asked for, which says nothing of a kind."""
LIMIT_SECONDS = 300
ROOT = Path(__file__).parents[2]
FINE = ("equal bits", "refused", "not PyTorch's either", "needs a GPU")


def of(kind: Kind) -> dict[str, str]:
    """Runs a kind without rk and with it, in this process."""
    torch._dynamo.reset()
    gc.collect()
    if kind.cuda and not torch.cuda.is_available():
        return {"came": "needs a GPU"}
    try:
        expected = _run(kind, lambda one: torch.compile(one, backend="aot_eager"))
    except Exception as error:
        return {"came": "not PyTorch's either", "says": line(inner(error))}
    compiled: list[Any] = []

    def compile(one: Any) -> Any:
        compiled.append(torch.compile(one, backend="rk", options={**OPTIONS, "group": kind.name}))
        return compiled[-1]

    before = len(rk.plans())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = _run(kind, compile)
        except Exception as error:
            error = inner(error)
            came = "refused" if is_refusal(error) else "error"
            return {"came": came, "says": line(error)}
    if len(expected) != len(found) or not all(map(bits.equal, expected, found)):
        return {"came": "other bits"}
    said = [text for one in told if (text := str(one.message)).startswith("rk") and BEST not in text]
    planned = len(rk.plans()) - before
    return {"came": "equal bits", "says": shown(said[0]) if said else "", "planned": str(planned)}


def line(error: BaseException) -> str:
    """Class and message."""
    return f"{type(error).__name__}: {shown(str(error))}"


def shown(text: str) -> str:
    """A message in one line, without folders of this machine and line numbers of PyTorch's files."""
    text = re.sub(r"\S*/site-packages/", "", text.replace(f"{ROOT}/", ""))
    return " ".join(re.sub(r"(torch/\S+\.py):\d+", r"\1", text).split())


def _run(kind: Kind, compile: Compile) -> list[Tensor]:
    torch.manual_seed(0)
    return [plain(one) for one in kind.program(compile)]


def of_each(kinds: list[Kind]) -> Iterator[tuple[str, dict[str, str]]]:
    """Runs the kinds in a process that may die or hang; another one goes on behind the kind that did it."""
    while kinds:
        command = [sys.executable, "-m", "campaigns.conformance", "--worker", *(kind.name for kind in kinds)]
        done, hung = 0, threading.Event()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            for line in _lines(worker, hung):
                if line.startswith("{"):
                    yield kinds[done].name, json.loads(line)
                    done += 1
        if done < len(kinds):
            came = {"came": "hang"} if hung.is_set() else {"came": f"crash ({worker.returncode})"}
            yield kinds[done].name, came
        kinds = kinds[done + 1 :]


def _lines(worker: subprocess.Popen[str], hung: threading.Event) -> Iterator[str]:
    """What a worker prints; it is ended when it has printed nothing for too long."""

    def end() -> None:
        hung.set()
        worker.kill()

    while True:
        alarm = threading.Timer(LIMIT_SECONDS, end)
        alarm.start()
        line = worker.stdout.readline() if worker.stdout else ""
        alarm.cancel()
        if not line:
            return
        yield line


def work(names: list[str]) -> None:
    """What a worker does: a line of JSON for each kind."""
    for name in names:
        kind = next(one for one in KINDS if one.name == name)
        print(json.dumps(of(kind)), flush=True)
