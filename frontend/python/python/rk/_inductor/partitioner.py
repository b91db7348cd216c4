"""Where Inductor asks how a joint graph is to be split into forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn


class Partitioner(CustomPartitionerFn):
    """Asks a function of rk's."""

    def __init__(self, partition: Callable[..., Any]) -> None:
        """``partition`` takes the joint graph and its inputs, and returns the two graphs."""
        self.partition = partition

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **about: Any) -> Any:
        """The two graphs."""
        about.pop("compiler", None)
        return self.partition(gm, joint_inputs, **about)

    def uuid(self) -> str:
        """Inductor's cache of kernels is keyed by the graphs that come out, too."""
        return "rk"

    def __deepcopy__(self, _memo: Any) -> Partitioner:
        # Inductor copies and hashes its configuration.
        return self

    def __reduce__(self) -> Any:
        return str, (self.uuid(),)
