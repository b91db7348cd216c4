"""``rk.verify``: does the budget hold on this machine, are the bits the same, what does it cost?

Both sides are measured, never derived from the plan: the model as it is through ``aot_eager`` (the same
kernels, without a plan), and through rk.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

from rk._codegen import bits
from rk._compile import governed
from rk._compile.backend import rk
from rk._graph import capture
from rk._plan import device as devices
from rk._plan import measure, schedule, shares
from rk._plan.options import Options
from rk._plan.planning import readable
from rk.errors import CompileError, OptionError, RkError


@dataclasses.dataclass(frozen=True)
class Verification:
    """What was measured. Bytes above what is allocated before a step; seconds."""

    budget: int
    """Bytes that were allowed."""
    eager_peak: int
    """Of the model without any compiler."""
    baseline_peak: int
    """Of the model as traced, without a plan."""
    planned_peak: int | None
    """None if the model is not one graph."""
    measured_peak: int
    """Of the model with rk."""
    eager_seconds: float
    """A step of the model without any compiler."""
    baseline_seconds: float
    """A step of the model as traced, without a plan."""
    seconds: float
    """A step of the model with rk."""
    steps: int
    """How many steps were trained."""
    bit_equal: bool
    """Whether losses, parameters and buffers are those of the model as traced, to the last bit."""
    different: tuple[str, ...]
    """What differs: losses by step, parameters and buffers by name."""
    unplanned: tuple[str, ...] = ()
    """What PyTorch ran by itself, in words."""

    @property
    def overhead(self) -> float:
        """Extra time against the model as traced, in percent."""
        return 100 * (self.seconds / self.baseline_seconds - 1)

    @property
    def within_budget(self) -> bool:
        """Whether the measured peak is within the budget."""
        return self.measured_peak <= self.budget

    @property
    def above_eager(self) -> int:
        """Bytes by which the peak exceeds that of the model as the user wrote it, checkpoints included."""
        return max(self.measured_peak - self.eager_peak, 0)

    def __bool__(self) -> bool:
        """Whether all is as promised: planned, within the budget, and equal to the last bit."""
        return self.within_budget and self.bit_equal and not self.unplanned

    def __str__(self) -> str:
        """All numbers, for people."""
        equal = "equal to the last bit" if self.bit_equal else f"different: {', '.join(self.different[:5])}"
        planned = "several graphs" if self.planned_peak is None else f"{readable(self.planned_peak)} planned"
        lines = [
            f"budget    {readable(self.budget)}",
            f"peak      {readable(self.measured_peak)} measured, {planned}; "
            f"{readable(self.baseline_peak)} without a plan, {readable(self.eager_peak)} eager",
            f"time      {self.seconds * 1e3:.1f} ms a step, {self.overhead:+.1f} %; "
            f"{self.baseline_seconds * 1e3:.1f} ms without a plan, "
            f"{self.eager_seconds * 1e3:.1f} ms eager",
            f"{self.steps} steps   {equal}",
        ]
        if self.above_eager:
            lines.append(
                f"note      the peak is {readable(self.above_eager)} above that of the model as it is"
            )
        lines += [f"unplanned {one}" for one in self.unplanned]
        return "\n".join([*lines, "as promised" if self else "NOT as promised"])


def verify(
    model: nn.Module,
    sample: Any,
    budget: int | str,
    *,
    steps: int = 3,
    loss: Callable[[Any], torch.Tensor] = measure.scalar,
    **options: Any,
) -> Verification:
    """Trains copies of a model for some steps with and without rk, and measures both.

    The model itself stays as it is.

    Args:
        model: The model, on the device where it is to be measured.
        sample: One input, a tuple of arguments, or a dict of keywords.
        budget: Bytes, ``"2GiB"``, a share such as ``"60%"`` of the peak without recomputation, or ``"auto"``.
        steps: How many steps each copy is trained.
        loss: Makes a scalar of what the model returns; without it, the output's own ``loss``, or the sum of
            the means.
        **options: Those of the backend; the scope is ``activations``.

    Returns:
        What was measured; it is true if all is as promised.

    Raises:
        BudgetError: Nothing fits into the budget.
        OptionError: An option is not known, or is one that cannot be measured so; or there is nothing to
            train.
    """
    checked = Options.parse({**options, "budget": budget})
    checked.check_foreseen("rk.verify")
    if not any(one.requires_grad for one in model.parameters()):
        raise OptionError(
            "rk.verify trains the model, and no parameter of it requires a gradient; "
            "call requires_grad_(True) on what is to be trained"
        )
    if checked.codegen == "rk":
        raise OptionError(
            "rk.verify measures what PyTorch's allocator hands out, and does not see the arena of "
            "codegen='rk'; the option verify=True compares the bits of its first steps"
        )
    plan = _plan(model, sample, checked)
    states: list[dict[str, torch.Tensor]] = []
    peaks, seconds = [], []
    with governed.collected() as unplanned, _own_errors():
        for compiler in (
            lambda one: one,
            lambda one: torch.compile(one, backend="aot_eager", dynamic=False),
            lambda one: torch.compile(one, backend=rk, dynamic=False, options=checked.as_dict()),
        ):
            twin = copy.deepcopy(model)
            run = measure.training_step(compiler(twin), sample, loss)
            states.append(_train(twin, run, steps))
            peaks.append(measure.peak(run, twin))
            seconds.append(measure.seconds(run, measure.device_of(twin)))
    different = tuple(name for name in states[1] if not bits.equal(states[1][name], states[2][name]))
    return Verification(
        budget=_bytes(checked.budget, peaks[1], measure.device_of(model)) if plan is None else plan.budget,
        eager_peak=peaks[0],
        baseline_peak=peaks[1],
        planned_peak=None if plan is None else plan.peak,
        measured_peak=peaks[2],
        eager_seconds=seconds[0],
        baseline_seconds=seconds[1],
        seconds=seconds[2],
        steps=steps,
        bit_equal=not different,
        different=different,
        unplanned=tuple(dict.fromkeys(unplanned)),
    )


def _plan(model: nn.Module, sample: Any, options: Options) -> schedule.Schedule | None:
    """The plan of the step; None if the model is not one graph, of which a plan could be made."""
    try:
        step = capture.step_of(model, sample)
    except CompileError:
        return None
    problem = schedule.Problem(step, options, schedule.device_of(step))
    return problem.plan(shares.budget_of(problem), 0)


def _bytes(budget: str, peak: int, device: torch.device) -> int:
    """The budget of a model that has no plan of its own; a share is one of the peak without a plan."""
    if budget == "auto":
        return devices.rounded(devices.bytes_left(device))
    return int(float(budget[:-1]) * peak / 100) if budget.endswith("%") else int(budget)


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    """An error of rk as it is, without what Dynamo has put around it."""
    try:
        yield
    except BackendCompilerFailed as failed:
        if isinstance(failed.inner_exception, RkError):
            raise failed.inner_exception from None
        raise


def _train(model: nn.Module, step: Callable[[], torch.Tensor], steps: int) -> dict[str, torch.Tensor]:
    """Losses, parameters and buffers after some steps from one seed; the generators are put back."""
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-2)
    state = {}
    device = measure.device_of(model)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        for index in range(steps):
            optimizer.zero_grad()
            state[f"loss {index}"] = step().clone()
            optimizer.step()
    state |= {name: one.detach().clone() for name, one in model.named_parameters()}
    return state | {name: one.detach().clone() for name, one in model.named_buffers()}
