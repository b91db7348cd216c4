"""``rk.fit``: will a training loop fit into the memory of a device? Answered before anything runs.

The model is traced with tensors that have sizes and no memory, and so is a step of the optimizer; the planner
answers from that. What is counted is scope ``device``: parameters, buffers, inputs, gradients, the state of
the optimizer, activations. Where the device is at hand every distinct operator is measured once, as
``torch.compile(model, backend="rk")`` does; where it is not, times are those of a model of bytes moved and
operations done, and workspaces of kernels are not known.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from rk._graph import capture, fakes
from rk._plan import device as devices
from rk._plan import optimizers
from rk._plan.options import Options
from rk._plan.planning import readable
from rk._plan.schedule import Problem, Schedule
from rk.errors import BudgetError, OptionError

MOST_TRIES = 8
"""Batch sizes that are tried in search of the largest."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """What a training loop takes on a device. Bytes in scope ``device``, the first step included."""

    device: str
    """The device that was asked about."""
    batch: int
    """The size of the first dimension of the sample's tensors."""
    parameters: int
    """Bytes of the parameters."""
    buffers: int
    """Bytes of the buffers."""
    inputs: int
    """Bytes of the sample's tensors."""
    gradients: int
    """Of parameters, all of them."""
    optimizer: int
    """The optimizer's state after its first step."""
    activations: int
    """The most that forward and backward need besides, if nothing runs again: activations, workspace, and
    the gradients that exist at that moment.
    """
    optimizer_step: int
    """The most that a step of the optimizer needs besides, temporaries."""
    peak: int
    """The most bytes of the loop if nothing is run again: rk's plan that keeps all. PyTorch itself often
    holds more, because it lets go of some values later.
    """
    smallest: int
    """The smallest budget that a plan was found for."""
    budget: int | None
    """The budget in bytes; None if none was asked for."""
    planned: int | None
    """The peak with rk within the budget; None if nothing fits or no budget was asked for."""
    overhead: float | None
    """Extra time of that plan, in percent of forward and backward."""
    max_batch: int | None
    """The largest batch that fits at no more than the overhead that was allowed, if it was asked for."""
    costs: str
    """``measured``, or ``roofline``: the model of times that the options ask for, or that stands in for a
    device that is not there.
    """

    @property
    def fits(self) -> bool:
        """Whether the loop fits within the budget, with rk if need be; without a budget, True."""
        return self.budget is None or self.planned is not None

    def __str__(self) -> str:
        """One line with the numbers."""
        parts = [("parameters", self.parameters), ("buffers", self.buffers), ("inputs", self.inputs)]
        parts.append(("optimizer", self.optimizer))
        if sum(size for _, size in parts) + self.activations == self.peak:
            parts.append(("forward and backward", self.activations))
        else:
            parts += [("gradients", self.gradients), ("the optimizer's step", self.optimizer_step)]
        told = ", ".join(f"{name} {readable(size)}" for name, size in parts if size)
        text = f"batch {self.batch} on {self.device}: {readable(self.peak)} if nothing runs again ({told}); "
        text += f"rk can go down to {readable(self.smallest)}"
        if self.budget is not None and self.planned is None:
            text += f"; {readable(self.budget)} are not enough"
        elif self.budget is not None:
            text += f"; within {readable(self.budget)} it takes {self.overhead:.1f} % more time"
        if self.max_batch is not None:
            text += f"; the largest batch that fits is {self.max_batch}"
        return f"{text} (costs: {self.costs})"


def fit(
    model: nn.Module,
    sample: Any,
    optimizer: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer] | None = None,
    budget: int | str | None = None,
    device: str | torch.device = "cuda",
    max_batch: bool = False,
    *,
    max_overhead: float = 30.0,
    **options: Any,
) -> Fit:
    """Tells what a training loop takes on a device, and what rk can make of it; nothing of the model is run.

    Args:
        model: The model, on any device, ``meta`` included.
        sample: One input, a tuple of arguments, or a dict of keywords; on any device, too.
        optimizer: One over the model's parameters, or what makes one of them (``torch.optim.AdamW``).
        budget: Bytes, such as ``"24GiB"``, or a share of the loop's own peak; None only asks what it takes.
        device: Where the loop will run. It need not be there.
        max_batch: Whether to look for the largest size of the first dimension that fits within the budget.
        max_overhead: The most extra time of forward and backward at that size, in percent.
        **options: Those of the backend; the scope is always ``device``.

    Returns:
        The answer, in bytes and percent; ``answer.fits`` is the short one.

    Raises:
        CompileError: The model is not one graph, or a step of the optimizer cannot be foreseen.
        OptionError: An option is not known, or does not go with another one.
    """
    if max_batch and budget is None:
        raise OptionError("max_batch=True needs a budget to fill")
    if budget is not None:
        options["budget"] = budget
    checked = Options.parse({**options, "scope": "device"})
    if budget is not None and checked.budget == "auto":
        raise OptionError("budget='auto' is what a device has left, and rk.fit asks no device: give bytes")
    question = _Question(model, sample, optimizer, torch.device(device), checked)
    answer = question.answered(budget is not None)
    if max_batch:
        largest = question.largest(answer, max_overhead)
        answer = dataclasses.replace(answer, max_batch=largest)
    return answer


class _Question:
    """A model, an optimizer and a device, asked at several batch sizes."""

    def __init__(
        self, model: nn.Module, sample: Any, optimizer: Any, device: torch.device, options: Options
    ) -> None:
        if device.type not in devices.SUPPORTED:
            raise OptionError(f"device={str(device)!r}: rk plans for {' and '.join(devices.SUPPORTED)}")
        self.model, self.sample, self.device, self.options = model, sample, device, options
        self.measures = device.type == "cpu" or torch.cuda.is_available()
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            optimizer = optimizer([one for one in model.parameters() if one.requires_grad])
        none = optimizers.Footprint(0, 0, 0)
        self.optimizer = none if optimizer is None else optimizers.footprint(optimizer, device)
        sizes = [one.shape[0] for one in tree_leaves(sample) if isinstance(one, torch.Tensor) and one.dim()]
        self.batch = sizes[0] if sizes else 1

    @functools.cached_property
    def _standing(self) -> tuple[int, int]:
        return self._bytes(self.model.parameters()), self._bytes(self.model.buffers())

    def _bytes(self, tensors: Any) -> int:
        unit = devices.alignment(self.device)
        sizes = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in tensors}
        return sum(-(-size // unit) * unit for size in sizes.values())

    def _resized(self, batch: int) -> Any:
        def resized(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.dim() or tensor.shape[0] != self.batch or batch == self.batch:
                return tensor
            return torch.empty(batch, *tensor.shape[1:], dtype=tensor.dtype, device="meta")

        return tree_map_only(torch.Tensor, resized, self.sample)

    def _problem(self, batch: int) -> tuple[Problem, int]:
        """The step at a batch size, and the bytes of its inputs."""
        sample = self._resized(batch)
        inputs = self._bytes(one for one in tree_leaves(sample) if isinstance(one, torch.Tensor))
        # Autograd cannot be traced on a GPU that is not there.
        where = self.device if self.measures else torch.device("cpu")
        mode, twin, fake = fakes.twin_of(self.model, sample, where)
        with mode:
            step = capture.step_of(twin, fake)
        standing = sum(self._standing) + inputs + self.optimizer.state
        problem = Problem(step, self.options, self.device, standing=standing, measures=self.measures)
        return problem, inputs

    def answered(self, asked: bool) -> Fit:
        """The answer at the batch size of the sample."""
        problem, inputs = self._problem(self.batch)
        gradients = problem.step.gradient_bytes()
        whole = problem.base_peak(0)
        stepping = problem.standing + gradients + self.optimizer.temporary
        peak = max(whole, stepping)
        budget = _in_bytes(self.options.budget, peak) if asked else None
        plan = None if budget is None or budget < stepping else _planned(problem, budget)
        parameters, buffers = self._standing
        return Fit(
            device=str(self.device),
            batch=self.batch,
            parameters=parameters,
            buffers=buffers,
            inputs=inputs,
            gradients=gradients,
            optimizer=self.optimizer.state,
            activations=whole - problem.standing,
            optimizer_step=self.optimizer.temporary,
            peak=peak,
            smallest=max(_smallest(problem, plan), stepping),
            budget=budget,
            planned=None if plan is None else max(plan.peak, stepping),
            overhead=None if plan is None else plan.overhead,
            max_batch=None,
            costs=self.options.cost_model if self.measures else "roofline",
        )

    def largest(self, known: Fit, max_overhead: float) -> int:
        """The largest batch that fits the budget; 0 if not even one sample does."""
        budget = known.budget or 0

        def enough(batch: int) -> bool:
            problem, _ = self._problem(batch)
            stepping = problem.standing + problem.step.gradient_bytes() + self.optimizer.temporary
            plan = None if budget < stepping else _planned(problem, budget)
            return plan is not None and plan.overhead <= max_overhead

        # What a batch adds is nearly proportional to its size: where the line says that the end is, is tried
        # first, then the middle between what fits and what does not.
        fixed = known.peak - known.activations - known.inputs
        guess = int(self.batch * max(budget - fixed, 0) / max(known.smallest - fixed, 1))
        low, high = (known.batch, 0) if known.fits and known.overhead <= max_overhead else (0, known.batch)
        for _ in range(MOST_TRIES):
            if high and high - low <= max(high // 50, 1):
                break
            middle = (low + high) // 2 if high else 2 * low
            batch = guess if low < guess < (high or guess + 1) else middle
            guess = 0
            if enough(batch):
                low = batch
            else:
                high = batch
        return low


def _in_bytes(budget: str, peak: int) -> int:
    return int(peak * float(budget[:-1]) / 100) if budget.endswith("%") else int(budget)


def _planned(problem: Problem, budget: int) -> Schedule | None:
    try:
        return problem.plan(str(budget), 0)
    except BudgetError:
        return None


def _smallest(problem: Problem, plan: Schedule | None) -> int:
    """The smallest budget that the planner finds a schedule for; ``plan`` is one that is known."""
    options = dataclasses.replace(problem.options, on_infeasible="best")
    least = Problem(
        problem.step, options, problem.device, standing=problem.standing, measures=problem.measures
    )
    with warnings.catch_warnings():
        # That one byte is not enough.
        warnings.simplefilter("ignore")
        found = least.plan("1", 0).peak
    return found if plan is None else min(found, plan.peak)
