"""Chapter *comparison*: rk beside PyTorch's own ways, at the peaks that those reach.

A peak is of a step that begins without gradients, so they are in it. rk's budgets are without gradients:
*within* another way, the budget is its peak without gradients; *at* another way, the budget that just keeps
its whole peak is looked for in up to three plans.
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
NETWORKS = ("gpt2_medium", "llama_1b", "resnet50", "vit_b_16", "unet", "gpt2_medium_logits", "gpt2_medium_8")
"""The most telling first."""
ORDER = (
    *((model, "kernels of PyTorch") for model in NETWORKS),
    *((model, "kernels of Inductor") for model in NETWORKS[:4]),
    *((model, "more budgets") for model in NETWORKS),
    *((model, "kernels of Inductor") for model in NETWORKS[4:]),
    *((model, "knobs") for model in NETWORKS),
)
"""Networks and parts of their rows: what compiles for a minute comes after what compiles for seconds."""


GIGABYTES = {"llama_1b": 30.0, "vit_b_16": 14.0, "unet": 18.0, "gpt2_medium_8": 14.0}
GIGABYTES |= {name: 10.0 for name in ("gpt2_medium", "gpt2_medium_logits", "resnet50")}
"""Of the card's memory, at most, that a row takes: what is prepared at once must fit."""


def rows(models: list[str]) -> Iterator[Row]:
    """All rows in their order."""
    for model, part in ORDER:
        if not models or model in models:
            yield from (_parts(model)[part])


def _parts(model: str) -> dict[str, list[Row]]:
    effort = networks.NETWORKS[model].effort

    def row(name: str, seconds: float, limit: float = 100, needs: tuple[str, ...] = (), **about: Any) -> Row:
        estimate = 3 + seconds * effort
        return Row(
            "comparison", model, name, about, estimate, max(limit, estimate), list(needs), GIGABYTES[model]
        )

    def at(other: str, part: float = 1.0, suffix: str = "") -> Row:
        about = {"way": "rk", "codegen": "fx", "part": part}
        return row(f"{FX} at {other}{suffix}", 18, 120, (other,), **about)

    def within(codegen: str, other: str) -> Row:
        # Inductor's kernels: a second plan, if the first one does not keep the budget.
        seconds, kind = (10, "fx") if codegen == FX else (55, "inductor")
        about = {"way": "rk", "codegen": kind, "budget": "other"}
        return row(f"{codegen} within {other}", seconds, 180, (other,), **about)

    def share(codegen: str, budget: str) -> Row:
        seconds, kind = (10, "fx") if codegen == FX else (30, "inductor")
        return row(f"{codegen} {budget}", seconds, way="rk", codegen=kind, budget=budget)

    parts = {
        "kernels of PyTorch": [
            row("eager", 4, way="eager"),
            row("checkpoint", 4, way="checkpoint"),
            row("aot_eager", 10, way="compile", backend="aot_eager"),
            share(FX, "100%"),
            share(FX, "50%"),
            within(FX, "checkpoint"),
            at("checkpoint"),
        ],
        "kernels of Inductor": [
            row("compile", 32, way="compile"),
            row("compile + checkpoint", 32, way="compile", checkpoint=True),
            share(INDUCTOR, "100%"),
            within(INDUCTOR, "compile + checkpoint"),
        ],
        "more budgets": [share(FX, "70%"), share(FX, "30%"), at("checkpoint", 0.5, ", half of it")],
        "knobs": [],
    }
    for value in KNOB:
        parts["knobs"].append(row(f"knob {value}", 32, way="compile", knob=value))
        parts["knobs"].append(within(INDUCTOR, f"knob {value}"))
    parts["knobs"] += [within(FX, f"knob {value}") for value in KNOB]
    return parts


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
        step.run = torch.compile(step.model, backend=about.get("backend", "inductor"), dynamic=False)
        with torch._functorch.config.patch(activation_memory_budget=about.get("knob", 1.0)):
            return steps.warm(step)

    def _rk(self, step: steps.Step, about: dict[str, Any]) -> dict[str, Any]:
        from rk._inductor import forecast

        # Each plan compiles anew, and the time on a card is short.
        forecast.ATTEMPTS = 2
        if "budget" not in about:
            target = int(about["target_bytes"])
            return _searched(step, target, max(target - step.gradient_bytes, 1))
        budget = about["other_bytes"] if about["budget"] == "other" else about["budget"]
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
        one.graph.asked = (str(budget), 0)
        one.graph.stale = True
