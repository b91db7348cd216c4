"""Chapter *smoke*: does ``torch.compile(backend="rk")`` run here, with the same bits, within its budget?

Every number is of a step under deterministic algorithms. The reference is ``aot_eager``, run twice, so that
it is seen whether the reference itself gives the same bits twice.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gpu_suite import networks, steps
from gpu_suite.rows import Context, Row

MODELS = ("mlp", "gpt2", "resnet18")
STEPS = 3


def rows(models: list[str]) -> Iterator[Row]:
    """The most telling first. All but costs may run beside each other: what they show are bits and bytes."""
    for model in MODELS:
        if not models or model in models:
            yield from _rows(model)


def _rows(model: str) -> Iterator[Row]:
    effort = networks.NETWORKS[model].effort

    def row(name: str, seconds: float, what: str, **about: Any) -> Row:
        return Row("smoke", model, name, {"what": what, "together": True, **about}, 3 + seconds * effort, 90)

    def plan(codegen: str, share: int, mixed: bool, **more: Any) -> Row:
        seconds = 10 if codegen == "fx" else 35
        about = {"codegen": codegen, "budget": f"{share}%", "mixed": mixed, "options": more}
        name = f"{codegen} {share}%{' offload' if more else ''}, {_named(mixed)}"
        return row(name, seconds, "rk", **about)

    for mixed in (False, True):
        yield row(f"reference, {_named(mixed)}", 10, "reference", mixed=mixed)
        yield plan("fx", 60, mixed)
    if model == "mlp":
        yield row("rk.verify 60%", 12, "verify")
        yield row("rk.memory_budget 60%", 5, "online")
    for share in (60, 40):
        # A link that costs nothing: values move wherever that helps.
        yield plan("fx", share, False, offload=True, bandwidth="1TB/s")
    yield plan("inductor", 60, True)
    yield plan("inductor", 40, False)
    for mixed in (False, True):
        yield plan("fx", 80, mixed)
        yield plan("fx", 40, mixed)
    for mixed in (False, True):
        yield row(f"costs, {_named(mixed)}", 8, "costs", mixed=mixed, together=False)


def _named(mixed: bool) -> str:
    return "bf16 autocast" if mixed else "f32"


class Smoke:
    """The rows of one network, in one process."""

    def __init__(self, context: Context) -> None:
        """Turns deterministic algorithms on."""
        self.context = context
        self._references: dict[bool, dict[str, torch.Tensor]] = {}
        torch.utils.deterministic.fill_uninitialized_memory = False

    def run(self, row: Row) -> dict[str, Any]:
        """The numbers of a row."""
        network = networks.NETWORKS[row.model]
        torch.use_deterministic_algorithms(True, warn_only=not network.strict)
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        about = row.about
        found = getattr(self, f"_{about['what']}")(row.model, about)
        return {"deterministic": "strict" if network.strict else "as far as PyTorch has it", **found}

    def _step(self, model: str, mixed: bool = False) -> steps.Step:
        return steps.Step(model, self.context.device, self.context.small, mixed)

    def _trained(self, step: steps.Step) -> dict[str, torch.Tensor]:
        """Losses, parameters and buffers after some steps of SGD from one seed."""
        optimizer = torch.optim.SGD(step.model.parameters(), lr=1e-2)
        torch.manual_seed(1)
        state = {}
        for index in range(STEPS):
            optimizer.zero_grad()
            state[f"loss {index}"] = step().cpu()
            optimizer.step()
        named = (*step.model.named_parameters(), *step.model.named_buffers())
        # A copy on the CPU, too: steps that follow go on with the running statistics.
        state |= {name: one.detach().cpu().clone() for name, one in named}
        steps.wait(step.device)
        return state

    def _reference_step(self, model: str, mixed: bool) -> steps.Step:
        step = self._step(model, mixed)
        step.run = torch.compile(step.model, backend="aot_eager", dynamic=False)
        return step

    def _reference(self, model: str, about: dict[str, Any]) -> dict[str, Any]:
        first = self._trained(self._reference_step(model, about["mixed"]))
        steps.forget(self.context.device)
        step = self._reference_step(model, about["mixed"])
        second = self._trained(step)
        self._references[about["mixed"]] = first
        return {
            "reproducible": not _different(first, second),
            "different": _different(first, second)[:5],
            **steps.peaks(step),
            **steps.times(step),
        }

    def _rk(self, model: str, about: dict[str, Any]) -> dict[str, Any]:
        mixed, codegen = about["mixed"], about["codegen"]
        if mixed not in self._references and codegen == "fx":
            self._references[mixed] = self._trained(self._reference_step(model, mixed))
            steps.forget(self.context.device)
        step = self._step(model, mixed)
        options = {"budget": about["budget"], "codegen": codegen, "on_infeasible": "best", **about["options"]}
        step.run = torch.compile(step.model, backend="rk", dynamic=False, options=options)
        with steps.told() as lines:
            state = self._trained(step)
            warmed = steps.warm(step)
        numbers = {**warmed, **steps.account(), **steps.summary(lines)}
        if codegen == "fx":
            different = _different(self._references[mixed], state)
            numbers |= {"bit_equal": not different, "different": different[:5]}
        else:
            numbers["finite"] = all(bool(one.isfinite().all()) for one in state.values())
        numbers |= steps.peaks(step) | steps.times(step)
        return numbers | steps.verdict(numbers)

    def _costs(self, model: str, about: dict[str, Any]) -> dict[str, Any]:
        from rk._graph import capture
        from rk._graph.graph_text import Text
        from rk._plan import costs

        step = self._step(model, about["mixed"])
        with networks.precision(step.device, step.mixed):
            calls = Text(capture.step_of(step.model, step.inputs)).calls
        measured, lines = [], []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder, steps.told() as said:
                measured.append(costs.of(calls, step.device, Path(folder)))
                lines += said
        counted: dict[str, int] = {}
        for call in calls:
            if call.signature in measured[0]:
                counted[call.signature] = counted.get(call.signature, 0) + 1
        first, second = (
            {name: count * one[name].nanoseconds for name, count in counted.items()} for one in measured
        )
        apart = sorted(counted, key=lambda name: abs(first[name] - second[name]), reverse=True)
        total = max(sum(first.values()), 1)
        return {
            "calls": len(counted),
            "sum_ms": [sum(one.values()) * 1e-6 for one in (first, second)],
            "sum_ratio": sum(second.values()) / total,
            "apart_share": sum(abs(first[name] - second[name]) for name in counted) / total,
            "workspace_equal": sum(measured[0][n].workspace == measured[1][n].workspace for n in counted),
            "most_apart": [[name[:160], counted[name], first[name], second[name]] for name in apart[:5]],
            "most_expensive": [
                [name[:160], counted[name], first[name]]
                for name in sorted(counted, key=first.get, reverse=True)[:8]
            ],
            **steps.summary(lines),
        }

    def _verify(self, model: str, about: dict[str, Any]) -> dict[str, Any]:
        import rk

        step = self._step(model)
        found = rk.verify(step.model, step.inputs, "60%", on_infeasible="best")
        return {"text": str(found), "bit_equal": found.bit_equal, "within_budget": found.within_budget}

    def _online(self, model: str, about: dict[str, Any]) -> dict[str, Any]:
        import rk

        step = self._step(model)
        before = self._trained(step)
        whole = steps.total_peak(step)
        step = self._step(model)
        # Gradients count, unlike in the scope of a plan, and are no ordinary tensors until the context ends.
        with rk.memory_budget(int(0.6 * whole)) as budget:
            state = self._trained(step)
            peak = steps.total_peak(step)
        different = _different(before, state)
        return {
            "eager_peak_bytes": whole,
            "online_budget_bytes": int(0.6 * whole),
            "peak_bytes": peak,
            "bit_equal": not different,
            "different": different[:5],
            "statistics": {name: int(number) for name, number in budget.statistics().items()},
        }


def _different(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> list[str]:
    from rk._codegen import bits

    return [name for name in expected if not bits.equal(expected[name], found[name])]
