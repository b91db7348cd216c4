"""What takes long to find out about a joint graph, as data that can be kept on disk.

An answer names nodes, by the names that the same graph has in another process, or places. What follows from
an answer is done every time, so the graph that is read is the same with answers from disk and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import fx

Nodes = tuple[fx.Node, list[fx.Node]]
"""A node, and those that have to do with it."""


class Analysis:
    """The answers to what is asked about one graph."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        """``answers`` are those of an earlier process to the same graph."""
        self.is_known = answers is not None
        """All that is asked has been answered before."""
        self.answers: dict[str, Any] = {} if answers is None else answers
        """By question, as JSON has them."""

    def of(self, question: str, find: Callable[[], Any]) -> Any:
        """The answer to a question."""
        if question not in self.answers:
            self.answers[question] = find()
        return self.answers[question]

    def each(self, question: str, graph: fx.Graph, find: Callable[[], Iterable[Nodes]]) -> Iterator[Nodes]:
        """The parts of an answer. What follows from one is done before the next is asked for."""
        if question in self.answers:
            answer = self.answers[question]
            named = {node.name: node for node in graph.nodes} if answer else {}
            for name, others in answer:
                yield named[name], [named[other] for other in others]
            return
        found = []
        for node, others in find():
            found.append((node.name, [other.name for other in others]))
            yield node, others
        self.answers[question] = found
