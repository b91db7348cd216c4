"""A network's step as text, at both stages that say what runs and where, with what it was called with."""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from campaigns.opinfo.imported import TOOLS
from rk import _rk, _rk_runtime
from rk._codegen import native
from rk._codegen.native import handles_of
from rk._plan.measure import scalar
from rk.errors import RkError

BUDGET = {"codegen": "rk", "budget": "60%", "on_infeasible": "best", "time_limit": "50ms"}
LAW = re.compile(r"\bS([1-9])\b")


class Refused(Exception):
    """What a law, or the form of the text, forbids; :attr:`law` is its number, or "form"."""

    def __init__(self, text: str) -> None:
        """``text`` is what was said."""
        super().__init__(text)
        found = LAW.search(text)
        self.law = f"S{found[1]}" if found else "form"


class Step:
    """What runs, as text, and what it ran on."""

    def __init__(self, program: Any, stages: dict[str, str]) -> None:
        """``program`` has run once."""
        self.scheduled, self.lowered = stages["scheduled"], stages["lowered"]
        self.file: str = program.schedule.step
        self._handed_out = len(program._handed_out)
        self._given, self._tangents = program.given, program.tangents
        self.expected = self.run(self.file)

    def checked(self, stage: str, text: str) -> str:
        """The step file of a text at a stage; raises :class:`Refused`."""
        try:
            if stage == "file":
                return text
            passes = "rk-verify-schedule,rk-verify-stage"
            if stage == "scheduled":
                passes = f"{passes},rk-lower"
            return step_file(_rk.run_passes(text, f"{passes},rk-verify-schedule"))
        except RkError as error:
            raise Refused(str(error)) from None

    def run(self, file: str) -> list[torch.Tensor | None]:
        """Results, gradients, what was overwritten and the generator, from the same start each time; raises
        :class:`Refused`.
        """
        try:
            machine = _rk_runtime.Machine(file, self._handed_out)
            given, tangents = twins(self._given), twins(self._tangents)
            torch.manual_seed(7)
            made = native._tensors(machine.forward(handles_of(given)))
            made += native._tensors(machine.backward(handles_of(tangents)))
        except RkError as error:
            raise Refused(str(error)) from None
        # What the arena holds goes with it.
        copies = [None if one is None else one.clone() for one in made]
        return [*copies, *given, torch.random.get_rng_state()]


def step_file(lowered: str) -> str:
    """The step file of a lowered step; raises :class:`Refused`."""
    command = [TOOLS / "rk-translate", "--to", "step", "-"]
    done = subprocess.run(command, input=lowered, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def twins(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies that lie as the originals do, and share storages as those do."""
    storages = {one.untyped_storage()._cdata: one.untyped_storage() for one in tensors}
    copies = {key: storage.clone() for key, storage in storages.items()}
    return [
        torch.empty(0, dtype=one.dtype).set_(
            copies[one.untyped_storage()._cdata], one.storage_offset(), one.size(), one.stride()
        )
        for one in (tensor.detach() for tensor in tensors)
    ]


class Watched(native.Program):
    """Keeps what it is called with."""

    def _forward(self, args: list[Any]) -> list[Any]:
        sources = [args[one] if isinstance(one, int) else self._constants[one] for one in self._sources]
        self.given = twins(sources)
        return super()._forward(args)

    def _backward(self, args: list[Any]) -> list[Any]:
        place = len(self.saved) + len(self.saved_outputs) + 2 + len(self.unchecked)
        self.tangents = twins(args[place:])
        return super()._backward(args)


def steps_of(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> list[Step]:
    """The steps of a network's graphs that were run forward and backward; :class:`Refused` if rk says no."""
    torch._dynamo.reset()
    torch._dynamo.config.allow_rnn = True
    torch.manual_seed(0)
    model, inputs = make()
    made: list[Watched] = []

    def watched(*about: Any) -> Watched:
        made.append(Watched(*about))
        return made[-1]

    plain = native.Program
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            native.Program = watched
            run = torch.compile(model, backend="rk", options={**BUDGET, "dump_dir": folder})
            scalar(run(*inputs)).backward()
        except (RkError, torch._dynamo.exc.BackendCompilerFailed) as error:
            raise Refused(str(error)) from None
        finally:
            native.Program = plain
        stages = [_stages(Path(folder), one) for one in made]
    return [Step(one, texts) for one, texts in zip(made, stages, strict=True) if hasattr(one, "tangents")]


def _stages(folder: Path, program: Any) -> dict[str, str]:
    for path in folder.glob("*-lowered.mlir"):
        lowered = path.read_text()
        if step_file(lowered) == program.schedule.step:
            scheduled = next(folder.glob(f"{path.name[:13]}-*-scheduled.mlir"))
            return {"scheduled": scheduled.read_text(), "lowered": lowered}
    raise LookupError("the text of the plan that runs was not written")
