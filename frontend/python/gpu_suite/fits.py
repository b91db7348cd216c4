"""Chapter *it fits*: training under a hard cap of memory, and the largest batch that each way can train."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

import rk
from gpu_suite import networks, steps
from gpu_suite.rows import Context, Row

STEPS = 50
SHARE = 0.4
"""What of eager PyTorch's peak the budget leaves, beside parameters, gradients and the optimizer's state."""
RESERVE = 1.05
"""The cap over the budget: blocks that the allocator did not split."""
WAYS = ("eager", "checkpoint", "rk fx")
MODEL = "gpt2_medium"
LARGEST = 512


def rows(models: list[str]) -> Iterator[Row]:
    """The cap first."""
    if models and MODEL not in models:
        return
    yield Row("fits", MODEL, f"rk fx, AdamW, {STEPS} steps under a cap", {"what": "cap"}, 60, 120)
    for way in WAYS:
        yield Row("fits", MODEL, f"largest batch, {way}", {"what": "batch", "way": way}, 60, 150)


class Fits:
    """The rows of one network, in one process."""

    def __init__(self, context: Context) -> None:
        """Nothing is set yet."""
        self.context = context

    def run(self, row: Row) -> dict[str, Any]:
        """The numbers of a row."""
        return getattr(self, f"_{row.about['what']}")(row)

    def _cap(self, row: Row) -> dict[str, Any]:
        device = self.context.device
        step = steps.Step(row.model, device, self.context.small)
        optimizer = torch.optim.AdamW(step.model.parameters(), lr=1e-5, foreach=False)

        def train(times: int) -> int:
            for _ in range(times):
                optimizer.zero_grad()
                step()
                optimizer.step()
            steps.wait(device)
            return times

        train(2)
        state = sum(one.nbytes for held in optimizer.state.values() for one in held.values())
        # On the CPU nothing counts what is there, and nothing caps it.
        standing = step.resident_bytes + step.gradient_bytes + state
        most = 2 * standing
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            train(1)
            most = torch.cuda.max_memory_allocated(device)
        step.clear()
        gc.collect()
        budget, cap = standing + int(SHARE * (most - standing)), 0
        step.run = rk.compile(step.model, budget=budget, scope="device", optimizer=optimizer)
        if device.type == "cuda":
            torch.cuda.empty_cache()
            cap = int(RESERVE * budget)
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(cap / total, device)
            torch.cuda.reset_peak_memory_stats(device)
        try:
            with steps.told() as lines:
                done = train(STEPS if not self.context.small else 3)
        finally:
            if device.type == "cuda":
                torch.cuda.set_per_process_memory_fraction(1.0, device)
        numbers = {**steps.summary(lines), **steps.account(), "eager_bytes": most, "optimizer_bytes": state}
        if device.type == "cuda":
            numbers["on_device_bytes"] = torch.cuda.max_memory_allocated(device)
            numbers["peak_reserved_bytes"] = torch.cuda.max_memory_reserved(device)
            numbers["within_budget"] = numbers["on_device_bytes"] <= budget
        return {**numbers, "budget_bytes": budget, "cap_bytes": cap, "steps_done": done}

    def _batch(self, row: Row) -> dict[str, Any]:
        least, most, tried = 0, LARGEST if not self.context.small else 4, []
        size = 32 if not self.context.small else 2
        while least + 1 < most and (not least or most - least > max(least // 16, 0)):
            works = self._trains(row, size)
            tried.append([size, works])
            least, most = (size, most) if works else (least, size)
            size = (least + most) // 2 if most < LARGEST or least >= LARGEST // 2 else 2 * size
        return {"batch": least, "does_not_fit": most, "tried": tried}

    def _trains(self, row: Row, batch: int) -> bool:
        device = self.context.device
        try:
            step = steps.Step(row.model, device, self.context.small)
            length = step.inputs[0].shape[1]
            step.inputs = [torch.randint(0, 100, (batch, length), device=device)]
            optimizer = torch.optim.AdamW(step.model.parameters(), lr=1e-5, foreach=False)
            if row.about["way"] == "checkpoint":
                networks.checkpoint_blocks(step.model)
            if row.about["way"].startswith("rk"):
                step.run = rk.compile(step.model, dynamic=False, scope="device", optimizer=optimizer)
            for _ in range(2):
                step.clear()
                step()
                optimizer.step()
            steps.wait(device)
            return True
        except Exception as error:
            inner = getattr(error, "inner_exception", None) or error
            if type(inner).__name__ not in ("OutOfMemoryError", "BudgetError"):
                raise
            return False
        finally:
            step = optimizer = None
            steps.forget(device)
