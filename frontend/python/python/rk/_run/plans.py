"""``rk.plans()``: the plans that this process runs."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from rk._run import group
from rk._run.classes import GraphClass
from rk._run.group import Group
from rk._run.steps import Known, owners

__all__ = ["Plan", "Plans", "plans"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is planned for one graph; bytes and nanoseconds. Where several graphs share a budget, peak and
    time are those of the whole step.
    """

    graph: str
    """The module that it is the graph of."""
    instances: int
    """Its calls in one step."""
    variants: dict[str, int]
    """How many of them run which variant."""
    budget: int
    """Bytes that were allowed."""
    peak: int
    """Planned."""
    measured: int | None
    """The real peak of a step; None if none was measured: a graph that is alone is not. Gradients that a
    backward half makes count until it is over, which ``peak`` leaves out.
    """
    time: int
    """Predicted, of all calls in the step."""
    lower_bound: int
    """No choice takes less time."""
    codegen: str
    """Who runs the plan: ``fx``, ``inductor`` or ``rk``."""
    device: str
    """The device that it runs on."""
    times: int
    """How often it was planned."""
    host_peak: int
    """Bytes of host memory in which values of one call wait, at most; with the option ``offload``."""

    def __str__(self) -> str:
        """One line."""
        parts = ", ".join(f"{count} x {name}" for name, count in self.variants.items())
        measured = "" if self.measured is None else f", measured {self.measured}"
        if self.host_peak:
            measured += f", {self.host_peak} in host memory"
        return (
            f"{self.graph} ({parts or 'not run'}): peak {self.peak} of {self.budget} bytes{measured}, "
            f"{self.time / 1e6:.3f} ms (at least {self.lower_bound / 1e6:.3f}), codegen {self.codegen}, "
            f"{self.device}, planned {self.times}x"
        )


class Plans(list[Plan]):
    """The plans that a process ran at some moment."""

    def __init__(self, found: list[Plan], groups: list[Group]) -> None:
        """What ``rk.plans()`` returns.

        Args:
            found: The plans.
            groups: Those that they are of.
        """
        from rk._report import calls

        super().__init__(found)
        self._steps = [step for one in groups for step in calls.steps(one, _ordered(one))]

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes the steps that run as one HTML page that needs nothing else: which plan each call runs, what
        is held between its halves, and memory over the step, with budget and bound.

        Args:
            path: The file to write.

        Returns:
            The path.
        """
        from rk._report import report

        return report.write_calls(self._steps, Path(path))


def plans() -> Plans:
    """The plans of this process.

    Returns:
        A list with one for each graph with a backward pass, group by group, and with a ``report`` of the
        steps that they run in.
    """
    groups = list(group.GROUPS.values())
    return Plans([_plan(one, owner) for one in groups for owner in _ordered(one)], groups)


def _ordered(shared: Group) -> list[GraphClass]:
    return sorted((one for one in shared.classes if one.base is not None), key=lambda one: one.number)


def _plan(shared: Group, owner: GraphClass) -> Plan:
    known = next((one for one in reversed(shared.known) if owner in owners(one.trail)), None)
    about = _alone(owner) if known is None else _together(owner, known)
    times = owner.times + (shared.times if known is not None else 0)
    return Plan(
        graph=owner.name, codegen=owner.options.codegen, device=str(shared.device), times=times, **about
    )


def _alone(owner: GraphClass) -> dict:
    plan = owner.base.schedule
    return {
        "instances": int(owner.calls > 0),
        "variants": {owner.base.name: 1} if owner.calls else {},
        "host_peak": plan.host_peak or 0,
        "budget": plan.budget,
        "peak": plan.peak,
        "measured": None,
        "time": plan.time,
        "lower_bound": plan.lower_bound,
    }


def _together(owner: GraphClass, known: Known) -> dict:
    called = owners(known.trail)
    mine = [one for one, of in zip(known.variants, called, strict=True) if of is owner]
    names = [one.name for one in mine]
    return {
        "instances": len(mine),
        "variants": {name: names.count(name) for name in dict.fromkeys(names)},
        "host_peak": max((one.schedule.host_peak or 0 for one in mine), default=0),
        "budget": known.budget,
        "peak": known.peak,
        "measured": known.measured,
        "time": known.time,
        "lower_bound": known.lower_bound,
    }
