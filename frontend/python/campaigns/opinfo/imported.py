"""One sample through rk's tools: traced, imported, planned for the smallest budget, lowered and run.

What is differentiable is a training step, whose parameters are the sample's tensors that ask for a gradient;
everything else is imported forward only. The tools are those of ``$RK_TOOLS``, or of the checkout.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from campaigns.opinfo.compiled import Outcome, is_unsteady, told
from campaigns.opinfo.families import Subject, tensors_in
from campaigns.opinfo.program import late, pressure
from rk import RkError, _rk

WAYS = ("import",)
CHECKOUT = Path(__file__).parents[4]
TOOLS = Path(
    os.environ.get("RK_TOOLS") or Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target")) / "release"
)
SECONDS = 60
SMALLEST = {"budget": "1", "time_limit": "20ms", "lower": True}
"""As ``rk-opt --rematerialize --rk-lower`` would, and ``rk-translate --to step``."""
REFUSED = {"rk-import": (1, 2, 5), "rk-run": (1,)}
"""Exit codes by which a tool says no."""
BITS_DIFFER = 4


class Traced(nn.Module):
    """The sample as a model: what is trained is a parameter, what is not is an input."""

    def __init__(self, subject: Subject, trains: bool) -> None:
        """Takes copies of the sample's tensors."""
        super().__init__()
        args, kwargs = subject.fresh()
        self.module, self.call, self.trains = subject.module, subject.call, trains
        self.given = (args, kwargs)
        tensors = {id(one): one for one in tensors_in(self.given)}
        trained = [one for one in tensors.values() if trains and one.requires_grad]
        self.trained = nn.ParameterList([nn.Parameter(one.detach()) for one in trained])
        self.places = {id(one): place for place, one in enumerate(trained)}
        self.inputs = [one.detach() for one in tensors.values() if id(one) not in self.places]
        self.others = [id(one) for one in tensors.values() if id(one) not in self.places]
        self.gate = nn.Parameter(torch.tensor(0.7))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Calls the operator."""
        values = dict(zip(self.others, inputs, strict=True))
        values.update({one: self.trained[place].clone() for one, place in self.places.items()})
        args, kwargs = _replaced(self.given, values)
        made = tensors_in(self.call(*args, **kwargs))
        if not self.trains:
            return tuple(made)
        outputs = [_real(late(one, self.gate)) for one in made]
        return (*outputs, *pressure(outputs))


def _replaced(value: Any, values: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return values[id(value)]
    if isinstance(value, dict):
        return {key: _replaced(one, values) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_replaced(one, values) for one in value])
    return value


def _real(made: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(made) if made.is_complex() else made


def outcome(subject: Subject, trains: bool) -> Outcome:
    """What becomes of a sample."""
    with tempfile.TemporaryDirectory(prefix="rk-opinfo-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = Path(folder)
        try:
            _trace(subject, trains, place)
        except Exception as error:  # noqa: BLE001 - to be classified
            return Outcome("torch", f"trace: {told(error)}")
        found = _through_tools(place, trains)
        if found.kind == "wrong" and is_unsteady(lambda: _run(place)):
            return Outcome("unsteady", "two runs of the trace differ")
        return found


def _run(place: Path) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return tensors_in(torch.jit.load(str(place / "model.pt"))(*torch.load(place / "inputs.pt")))


def _trace(subject: Subject, trains: bool, place: Path) -> None:
    model = Traced(subject, trains)
    inputs = tuple(model.inputs)
    torch.jit.trace(model, copy.deepcopy(inputs), check_trace=False).save(str(place / "model.pt"))
    torch.save(inputs, place / "inputs.pt")
    _run(place)


def _through_tools(place: Path, trains: bool) -> Outcome:
    loss = "sum" if trains else "none"
    failed, _ = _tool(
        place, "rk-import", "model.pt", "--inputs", "inputs.pt", "--loss", loss, "-o", "raw.mlir"
    )
    if failed is not None:
        return failed
    try:
        planned = json.loads(_rk.rematerialize((place / "raw.mlir").read_text(), **SMALLEST))
    except RkError as error:
        return Outcome("refused", f"rk-opt: {told(error)}")
    (place / "out.rkx").write_text(planned["step"])
    run = ["rk-run", "out.rkx", "--check", "--repeat", "0", "--warmup", "0", "--threads", "1", "--json"]
    failed, text = _tool(place, *run)
    if failed is not None:
        return failed
    reruns = json.loads(text)["reruns"]
    return Outcome("equal", again=[f"{reruns} runs"] if reruns else [])


def _tool(place: Path, tool: str, *arguments: str) -> tuple[Outcome | None, str]:
    """Runs a tool: what was wrong with it, or what it printed."""
    try:
        done = subprocess.run(
            [str(TOOLS / tool), *arguments], cwd=place, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Outcome("slow", f"{tool}: no answer in {SECONDS} s"), ""
    return (_failed(tool, done.returncode, done.stderr) if done.returncode else None), done.stdout


def _failed(tool: str, code: int, text: str) -> Outcome:
    lines = [line for line in text.splitlines() if "error" in line or "differ" in line] or text.splitlines()
    folder = re.escape(tempfile.gettempdir())
    reason = re.sub(rf"{folder}/\S+/|<unknown>:0: ", "", " ".join(lines[:2]))[:400]
    reason = reason if reason.startswith(tool) else f"{tool}: {reason}"
    if tool == "rk-run" and code == BITS_DIFFER:
        return Outcome("wrong", reason)
    refused = code in REFUSED[tool] and "panicked" not in text
    return Outcome("refused" if refused else "crash", reason if refused else f"{reason} (exit code {code})")
