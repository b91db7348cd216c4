"""Chapter *comparison*: rk beside PyTorch's own ways, at the peaks that those reach.

A peak is of a step that begins without gradients, so they are in it. rk's budgets are without gradients; the
one that just keeps a peak is looked for in up to three plans.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch

from gpu_suite import networks, steps
from gpu_suite.rows import Context, Row
from rk.errors import BudgetError

KNOB = (0.5, 0.3, 0.1, 0.7, 0.2, 0.9)
TRIES = 3
CLOSE = 0.97
"""A plan that uses this share of the peak that it may use is close enough."""
MIXED = {"unet"}
"""Networks that are trained under autocast to bf16."""
FX, INDUCTOR = "rk fx", "rk inductor"
ORDER = (
    ("gpt2_medium", 0),
    ("llama_1b", 0),
    ("gpt2_medium", 1),
    ("resnet50", 0),
    ("llama_1b", 1),
    ("vit_b_16", 0),
    ("unet", 0),
    ("gpt2_medium_logits", 0),
    ("resnet50", 1),
    ("vit_b_16", 1),
    ("gpt2_medium", 2),
    ("unet", 1),
    ("llama_1b", 2),
    ("gpt2_medium_8", 0),
    ("resnet50", 2),
    ("vit_b_16", 2),
    ("unet", 2),
    ("gpt2_medium_8", 1),
    ("gpt2_medium_8", 2),
)
"""Networks and parts of their rows, the most telling first."""


GIGABYTES = {"llama_1b": 30.0, "vit_b_16": 14.0, "unet": 18.0, "gpt2_medium_8": 14.0}
GIGABYTES |= {name: 10.0 for name in ("gpt2_medium", "gpt2_medium_logits", "resnet50")}
"""Of the card's memory, at most, that a row takes: what is prepared at once must fit."""


def rows(models: list[str]) -> Iterator[Row]:
    """All rows in their order."""
    for model, part in ORDER:
        if not models or model in models:
            yield from (_parts(model)[part])


def _parts(model: str) -> tuple[list[Row], list[Row], list[Row]]:
    effort = networks.NETWORKS[model].effort

    def row(name: str, seconds: float, limit: float = 100, needs: tuple[str, ...] = (), **about: Any) -> Row:
        estimate = 3 + seconds * effort
        return Row(
            "comparison", model, name, about, estimate, max(limit, estimate), list(needs), GIGABYTES[model]
        )

    def at(codegen: str, other: str, part: float = 1.0, suffix: str = "") -> Row:
        seconds, kind = (14, "fx") if codegen == FX else (30, "inductor")
        name = f"{codegen} at {other}{suffix}"
        return row(name, seconds, 120, (other,), way="rk", codegen=kind, part=part)

    def share(codegen: str, budget: str) -> Row:
        seconds, kind = (10, "fx") if codegen == FX else (25, "inductor")
        return row(f"{codegen} {budget}", seconds, way="rk", codegen=kind, budget=budget)

    first = [
        row("eager", 3, way="eager"),
        row("checkpoint", 3, way="checkpoint"),
        at(FX, "checkpoint"),
        share(FX, "100%"),
        share(FX, "50%"),
    ]
    second = [
        row("compile", 25, way="compile"),
        row("compile + checkpoint", 25, way="compile", checkpoint=True),
        at(INDUCTOR, "compile + checkpoint"),
        share(INDUCTOR, "100%"),
        at(FX, "checkpoint", 0.5, ", half of it"),
        share(FX, "70%"),
        share(FX, "30%"),
    ]
    third = [at(INDUCTOR, "compile + checkpoint", 0.5, ", half of it")]
    for value in KNOB:
        third.append(row(f"knob {value}", 25, way="compile", knob=value))
        third.append(at(INDUCTOR, f"knob {value}"))
    third += [at(FX, f"knob {value}") for value in KNOB]
    return first, second, third


class Comparison:
    """The rows of one network, in one process."""

    def __init__(self, context: Context) -> None:
        """A way that Dynamo gives up on must not count as measured."""
        self.context = context
        torch._dynamo.config.fail_on_recompile_limit_hit = True

    def prepare(self, row: Row) -> dict[str, Any]:
        """Compiles, plans and warms up; what of it is a number."""
        warnings.simplefilter("ignore")
        self.step = steps.Step(row.model, self.context.device, self.context.small, row.model in MIXED)
        with steps.told() as lines:
            if row.about["way"] != "rk":
                return self._theirs(self.step, row.about)
            found = self._rk(self.step, row.about)
        return {**found, **steps.summary(lines), **steps.account()}

    def run(self, row: Row) -> dict[str, Any]:
        """Bytes and times of what is prepared."""
        numbers = steps.peaks(self.step) | steps.times(self.step) | steps.account()
        if "target_bytes" in row.about:
            numbers["target_bytes"] = int(row.about["target_bytes"])
            numbers["at_target"] = numbers["peak_bytes"] <= numbers["target_bytes"]
        return numbers | steps.verdict(numbers)

    def forget(self) -> None:
        """Lets go of the network."""
        self.step = None

    def _theirs(self, step: steps.Step, about: dict[str, Any]) -> dict[str, Any]:
        if about["way"] == "checkpoint" or about.get("checkpoint"):
            networks.checkpoint_blocks(step.model)
        if about["way"] != "compile":
            return steps.warm(step)
        step.run = torch.compile(step.model, dynamic=False)
        with torch._functorch.config.patch(activation_memory_budget=about.get("knob", 1.0)):
            return steps.warm(step)

    def _rk(self, step: steps.Step, about: dict[str, Any]) -> dict[str, Any]:
        import rk.inductor

        # Each try compiles anew, and the time on a card is short.
        rk.inductor.ATTEMPTS = 3
        target = about.get("target_bytes")
        budget = about.get("budget") or max(int(target - step.gradient_bytes), 1)
        if target is not None and about["codegen"] == "fx":
            return _searched(step, int(target), int(budget))
        _compile(step, budget, about["codegen"], "best")
        return steps.warm(step)


def _compile(step: steps.Step, budget: Any, codegen: str, on_infeasible: str) -> None:
    options = {"budget": budget, "codegen": codegen, "on_infeasible": on_infeasible}
    step.run = torch.compile(step.model, backend="rk", dynamic=False, options=options)


def _searched(step: steps.Step, target: int, budget: int) -> dict[str, Any]:
    """Looks for the largest budget that keeps the peak with gradients within the target."""
    tried: list[list[Any]] = []
    best = None
    numbers: dict[str, Any] = {}
    for _ in range(TRIES):
        try:
            if steps.plans():
                _plan_again(budget)
            else:
                _compile(step, budget, "fx", "error")
            found = steps.warm(step, 0 if tried else 1)
            numbers = numbers or found
        except Exception as failure:
            error = getattr(failure, "inner_exception", failure)
            if not isinstance(error, BudgetError) or error.smallest_bytes is None:
                raise
            tried.append([budget, f"infeasible, {error.smallest_bytes} is not"])
            if best is not None or error.smallest_bytes > target:
                break
            budget = error.smallest_bytes
            continue
        peak = steps.total_peak(step)
        tried.append([budget, peak])
        if peak <= target and (best is None or budget > best):
            best = budget
        if CLOSE * target <= peak <= target:
            break
        budget = max(budget + target - peak, 1)
    measured = [one for one in tried if isinstance(one[1], int)]
    if not measured:
        raise BudgetError(f"no plan keeps {target} bytes with the gradients: {tried}")
    if best is not None and measured[-1][0] != best:
        _plan_again(best)
    return {**numbers, **{"tried": tried}, **{f"final_{k}": v for k, v in steps.warm(step, 1).items()}}


def _plan_again(budget: int) -> None:
    """The next call plans what is compiled for another budget; Dynamo does not trace it again."""
    for one in steps.plans():
        one.graph.budget = one.graph.total = str(budget)
        one.graph.stale = True
