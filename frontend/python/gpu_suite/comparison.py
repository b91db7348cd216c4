"""Chapter *comparison*: rk beside PyTorch's own ways, at the peaks that those reach.

A peak is of a step that begins without gradients, so they are in it. *Within* another way, rk's budget is the
peak of that way without gradients (scope ``activations``); *at* another way, it is all that that way had on
the device at its peak (scope ``device``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch

from gpu_suite import networks, steps
from gpu_suite.rows import Context, Row
from rk._plan import costs

KNOB = (0.5, 0.3, 0.1, 0.7, 0.2, 0.9)
OBSERVED = 3
"""Steps in which scope ``device`` learns what stands on the device, beside the first."""
MIXED = {"unet"}
"""Networks that are trained under autocast to bf16."""
FX, INDUCTOR = "rk fx", "rk inductor"
NETWORKS = ("gpt2_medium", "llama_1b", "resnet50", "vit_b_16", "unet", "gpt2_medium_logits", "gpt2_medium_8")
"""The most telling first."""
MOST = 5
"""How many of them come first with all kinds of kernels."""
ORDER = (
    *((model, "kernels of PyTorch") for model in NETWORKS[:MOST]),
    *((model, "kernels of Inductor") for model in NETWORKS[:MOST]),
    *((model, "kernels of PyTorch") for model in NETWORKS[MOST:]),
    *((model, "more budgets") for model in NETWORKS),
    *((model, "kernels of Inductor") for model in NETWORKS[MOST:]),
    *((model, "transfers") for model in NETWORKS),
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

    def at(codegen: str, other: str, part: float = 1.0, suffix: str = "") -> Row:
        seconds, kind = (18, "fx") if codegen == FX else (40, "inductor")
        about = {"way": "rk", "codegen": kind, "part": part}
        return row(f"{codegen} at {other}{suffix}", seconds, 120, (other,), **about)

    def within(codegen: str, other: str) -> Row:
        # Inductor's kernels: a second plan, if the first one does not keep the budget.
        seconds, kind = (10, "fx") if codegen == FX else (55, "inductor")
        about = {"way": "rk", "codegen": kind, "budget": "other"}
        return row(f"{codegen} within {other}", seconds, 180, (other,), **about)

    def share(codegen: str, budget: str) -> Row:
        seconds, kind = (10, "fx") if codegen == FX else (30, "inductor")
        return row(f"{codegen} {budget}", seconds, way="rk", codegen=kind, budget=budget)

    def moving(budget: str) -> Row:
        about = {"way": "rk", "codegen": "fx", "budget": budget, "offload": True}
        return row(f"{FX} offload {budget}", 12, 120, **about)

    parts = {
        "kernels of PyTorch": [
            row("eager", 4, way="eager"),
            row("checkpoint", 4, way="checkpoint"),
            row("aot_eager", 10, way="compile", backend="aot_eager"),
            share(FX, "100%"),
            share(FX, "50%"),
            within(FX, "checkpoint"),
            at(FX, "checkpoint"),
        ],
        "kernels of Inductor": [
            row("compile", 32, way="compile"),
            row("compile + checkpoint", 32, way="compile", checkpoint=True),
            share(INDUCTOR, "100%"),
            share(INDUCTOR, "50%"),
            share(INDUCTOR, "30%"),
            within(INDUCTOR, "compile + checkpoint"),
            at(INDUCTOR, "compile + checkpoint"),
        ],
        "more budgets": [share(FX, "70%"), share(FX, "30%"), at(FX, "checkpoint", 0.5, ", half of it")],
        "transfers": [moving("50%"), moving("30%"), moving("20%")],
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
        measured = costs.of

        def of(*args: Any, **kwargs: Any) -> Any:
            with steps.alone_on_card():
                return measured(*args, **kwargs)

        costs.of = of

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
        if "on_device_bytes" not in row.about:
            return numbers | steps.verdict(numbers)
        budget = int(row.about["on_device_bytes"])
        on_device = numbers["allocated_before_bytes"] + numbers["peak_bytes"]
        numbers |= {"device_budget_bytes": budget, "on_device_bytes": on_device}
        return numbers | {"within_budget": on_device <= budget}

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
        options = {"codegen": about["codegen"], "on_infeasible": "best"}
        options["offload"] = about.get("offload", False)
        if "part" in about:
            options |= {"budget": int(about["on_device_bytes"]), "scope": "device", "on_infeasible": "error"}
        else:
            options["budget"] = about["other_bytes"] if about["budget"] == "other" else about["budget"]
        step.run = torch.compile(step.model, backend="rk", dynamic=False, options=options)
        return steps.warm(step, OBSERVED if "part" in about else steps.WARM_UP)
