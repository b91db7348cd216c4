"""A joint graph as AOTAutograd gives it: checked, rewritten so that it can be planned, and read as a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import fx

from rk._graph import normalize, unplannable
from rk._graph.analysis import Analysis
from rk._graph.fingerprint import Fingerprint
from rk._graph.step import Step


def _nothing(_: str) -> None:
    return None


def read(
    gm: fx.GraphModule,
    num_fwd_outputs: int,
    static: Iterable[int],
    *,
    replays: bool = True,
    known: Callable[[str], dict[str, Any] | None] = _nothing,
) -> Step:
    """The step of a joint graph, which is rewritten in place.

    Args:
        gm: The graph.
        num_fwd_outputs: So many of its results are those of the forward pass.
        static: The indices of the placeholders that are state.
        replays: Whether a random operator can run again with the same random numbers.
        known: Gives the answers to all that takes long to find out about a graph, by its fingerprint
            (:mod:`rk._graph.analysis`), or None. A graph with answers has been checked.

    Raises:
        CompileError: No plan can be made of it.
    """
    static = list(static)
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    fingerprint = Fingerprint(gm, num_fwd_outputs, {placeholders[place] for place in static}, replays)
    analysis = Analysis(known(fingerprint.whole))
    if not analysis.is_known:
        unplannable.check(gm.graph)
    normalize.normalize(gm.graph, num_fwd_outputs, analysis, fuses=not replays)
    step = Step(gm, num_fwd_outputs, static, replays=replays, fingerprint=fingerprint, analysis=analysis)
    if not analysis.is_known:
        _ = step.loans, step.own_gradients()
    return step
