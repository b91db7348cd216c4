"""Inductor does what the plan says: kernels inside of a run only, in the order of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx
from torch._inductor.choices import InductorChoices

from rk._inductor.writer import RUN
from rk.errors import CompileError


def run_of(kernel: Any) -> int:
    """The run that a scheduler node belongs to: the latest one that its nodes are from; -1 for none."""
    runs = [
        origin.meta[RUN]
        for one in kernel.get_nodes()
        if one.node is not None
        for origin in one.node.get_origins()
        if isinstance(origin, fx.Node) and RUN in origin.meta
    ]
    return max(runs, default=-1)


class Choices(InductorChoices):
    """Lets kernels be fused that belong to one run."""

    @staticmethod
    def can_fuse(scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
        """Whether two kernels may become one."""
        if run_of(node1) != run_of(node2):
            return False
        return InductorChoices.can_fuse(scheduler, node1, node2, shared_data_score)


class Pin:
    """Puts kernels in the order of the runs. Inductor keys its cache of code by its configuration, of which
    this is a part, and not by what stands beside the nodes of a graph.
    """

    def __init__(self, key: str) -> None:
        """``key`` names the plan."""
        self.key = f"rk pin {key}"

    def __call__(self, kernels: Sequence[Any]) -> list[Any]:
        """The kernels of a scheduler, in order; CompileError if they cannot be."""
        runs = _runs(kernels)
        ordered = sorted(kernels, key=runs.__getitem__)
        made = {name: place for place, one in enumerate(ordered) for name in one.get_buffer_names()}
        for place, kernel in enumerate(ordered):
            for needed in kernel.unmet_dependencies:
                if made.get(needed.name, -1) > place:
                    raise CompileError(
                        f"Inductor's kernel {kernel.get_name()} of run {runs[kernel]} needs {needed.name} "
                        f"of run {runs[ordered[made[needed.name]]]}, which comes later"
                    )
        return ordered

    def uuid(self) -> str:
        """What the caches know it by."""
        return self.key

    def __deepcopy__(self, _memo: Any) -> Pin:
        # Inductor copies and hashes its configuration.
        return self

    def __reduce__(self) -> Any:
        return str, (self.key,)


def _runs(kernels: Sequence[Any]) -> dict[Any, int]:
    """The run of every kernel. What Inductor made of no node, such as a copy of a complex value, comes with
    the latest of what it reads.
    """
    runs: dict[Any, int] = {}
    made: dict[str, int] = {}
    for kernel in kernels:
        run = run_of(kernel)
        if run < 0:
            run = max((made.get(needed.name, -1) for needed in kernel.unmet_dependencies), default=-1)
        runs[kernel] = run
        made.update(dict.fromkeys(kernel.get_buffer_names(), run))
    return runs


def options(key: str) -> dict[str, Any]:
    """The configuration under which a plan's graphs are compiled."""
    return {
        "_post_fusion_custom_pass": Pin(key),
        # They would move kernels, or hold memory that the plan has given back.
        "reorder_for_peak_memory": False,
        "allow_buffer_reuse": False,
        "triton.reorder_for_reducing_graph_partitions": False,
    }
