"""The sequences of halves that a group has met, and which of them a step will be.

Steps that begin alike may go on differently: the two models of a GAN, a layer that is left out now and then,
one evaluation in every hundred steps. So what comes next is foretold from what came before, by the longest
context that has been met already (prediction by partial matching; Cleary and Witten, "Data compression using
adaptive coding and partial string matching", IEEE Transactions on Communications, 1984). Where that is wrong,
the step goes on as another known sequence that begins like it, if what has run so far leaves room for it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

from rk._run.steps import Begin, Known, Step

MOST_SURPRISES = 2
"""Steps of a sequence, one after the other, in which more memory is in use than was foreseen."""
MOST_KNOWN = 16
"""Sequences that a choice is remembered of."""
CONTEXTS = (16, 8, 4, 2, 1, 0)
"""How many steps before are looked at."""
PAST = 64
"""Steps that are remembered."""
Trail = tuple[Any, ...]


class Sequences:
    """Those of one group."""

    def __init__(self) -> None:
        """None has been met."""
        self.known: dict[tuple[Any, Trail], Known] = {}
        """By how a step begins and its trail, the latest at the end."""
        self._again: set[tuple[Any, Trail]] = set()
        """Those that are observed for the second time."""
        self._past: collections.deque[tuple[Any, Trail]] = collections.deque(maxlen=PAST)

    def expected(self, key: Any) -> Known | None:
        """The choice for the step that begins like this and comes next; None if it has none."""
        past = list(self._past)
        for length in CONTEXTS:
            context = past[len(past) - length :]
            for place in range(len(past) - 1, length - 1, -1):
                if past[place][0] == key and past[place - length : place] == context:
                    return self.known.get(past[place])
        return None

    def met(self, key: Any, trail: Trail) -> None:
        """A step is over."""
        self._past.append((key, trail))
        if (found := self.known.pop((key, trail), None)) is not None:
            self.known[key, trail] = found

    def learnt(self, key: Any, known: Known) -> None:
        """There is a choice for a sequence."""
        while len(self.known) >= MOST_KNOWN:
            self.known.pop(next(iter(self.known)))
        self.known[key, known.trail] = known

    def surprised(self, key: Any, known: Known) -> None:
        """A step of a known sequence had more memory in use: if that comes again, it is observed anew."""
        for mine in [one for one in self.known if one[0] == key and one[1] == known.trail]:
            self.known[mine].surprises += 1
            if self.known[mine].surprises >= MOST_SURPRISES:
                del self.known[mine]

    def measured(self, key: Any, known: Known, surely: int) -> None:
        """A step of a known sequence was measured, which took so many bytes at least: if that is more than it
        may, it is observed once more.
        """
        if surely > known.budget and (key, known.trail) not in self._again:
            self._again.add((key, known.trail))
            self.known.pop((key, known.trail), None)

    def rejoin(self, step: Step, suits: Callable[[Known], bool]) -> None:
        """A step has departed from what was expected: it goes on as another known sequence if it can."""
        for other in self._beginning(step):
            # The call that has just begun runs what is chosen now.
            count = len(step.instances) - isinstance(step.trail[-1], Begin)
            found = other.after([one.variant for one in step.instances[:count]]) if suits(other) else None
            if found is not None:
                step.known, step.departed = found, False
                return

    def _beginning(self, step: Step) -> Iterator[Known]:
        length = len(step.trail)
        for (key, trail), known in reversed(self.known.items()):
            if key == step.key and trail[:length] == tuple(step.trail):
                yield known
