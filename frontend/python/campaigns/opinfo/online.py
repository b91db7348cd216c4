"""One sample under a memory budget, forward and backward, without Dynamo and without a plan.

It runs without a limit first, and then within a share of what it took. Its bits are those of eager PyTorch,
or of eager PyTorch under a mode that does nothing: for a few operators autograd has other formulas then.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch

import rk
from campaigns.opinfo.compiled import Outcome, difference, is_unsteady, place, same, told
from campaigns.opinfo.families import Subject
from campaigns.opinfo.program import Run, around
from campaigns.ways import Onlooker
from rk._online.managed import GIVEN_AWAY

WAYS = ("online",)
SHARE = 0.6
"""Of the peak without a limit."""
REFUSED = (GIVEN_AWAY, "output array is read-only")
"""How errors begin that a kernel or NumPy raises where a budget refuses."""
AS_UNDER_A_MODE = "as under any mode: autograd has another formula then"


def outcome(subject: Subject) -> Outcome:
    """What becomes of a sample."""
    program, run = around([subject]), Run([subject])
    try:
        eager = run(program)
    except Exception as error:  # noqa: BLE001 - to be classified
        return Outcome("torch", f"eager: {told(error)}")
    try:
        whole = rk.memory_budget(None)
        found = [_under(whole, run, program)]
        limited = rk.memory_budget(max(int(whole.statistics()["peak_bytes"] * SHARE), 1))
        with contextlib.suppress(rk.OutOfMemoryError):
            found.append(_under(limited, run, program))
    except Exception as error:  # noqa: BLE001 - to be classified
        if isinstance(error, NotImplementedError) or str(error).startswith(REFUSED):
            return Outcome("refused", told(error))
        return Outcome("crash", f"{told(error)} @ {place(error)}")
    again = ["recomputed"] if limited.statistics()["recomputations"] else []
    if all(same(eager, one) for one in found):
        return Outcome("equal", again=again)
    expected = _under(Onlooker(), run, program)
    if all(same(expected, one) for one in found):
        return Outcome("equal", AS_UNDER_A_MODE, again=again)
    if is_unsteady(lambda: run(program)):
        return Outcome("unsteady", "two runs without a budget differ")
    return Outcome("wrong", difference(expected, next(one for one in found if not same(expected, one))))


def _under(context: Any, run: Run, program: Any) -> list[torch.Tensor | None]:
    """What is seen of a run whose forward and backward passes are inside of a context."""
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def inside(gate: torch.Tensor, given: Any) -> list[torch.Tensor]:
            stack.enter_context(context)
            return program(gate, given)

        seen = run(inside)
    return [None if one is None else rk.decheckpoint(one) for one in seen]
