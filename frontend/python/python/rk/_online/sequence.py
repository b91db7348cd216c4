"""How a call is computed again whose results were written in place: the call, then the writes, in one buffer.

The core says which writes become part of the call that made the buffer (``Runtime::extend`` of ``rk-dtr``);
calls that read only what was overwritten, such as autograd's copy of a factor, become part of it as well, and
add an output each.

Not here: one call (``replay``), what the core asks before it says so.
"""

from __future__ import annotations

from collections.abc import Sequence as Values
from typing import Any

from torch import Tensor

from rk._online.replay import Overwrite, Restride

__all__ = ["Sequence", "grown"]


class Sequence:
    """A call and what was done in its results since."""

    __slots__ = ("first", "steps", "width")

    def __init__(self, first: Any, width: int) -> None:
        """Begins with a call that reads ``width`` values."""
        self.first = first
        self.width = width
        self.steps: list[_Step] = []

    def __str__(self) -> str:
        """The first operator: it made the buffer."""
        return str(self.first)

    def last_operator(self) -> str:
        """The operator that wrote last, for logs."""
        return str(self.steps[-1].call) if self.steps else str(self)

    def read(self, call: Any, output: int, values: Values[Tensor]) -> None:
        """A call that reads views of an output, which lie as ``values`` do; its results are outputs."""
        self.steps.append(_Step(call, output, [Restride(value) for value in values], writes=False))

    def write(self, call: Overwrite, output: int, operands: list[Restride | int]) -> None:
        """A write to an output. An operand lies in it, or is the value of a place."""
        self.steps.append(_Step(call, output, operands, writes=True))

    def __call__(self, values: Values[Any]) -> list[Tensor]:
        """The values of all outputs, from those of what all the calls read."""
        made = list(self.first(values[: self.width]))
        for step in self.steps:
            made += step(made, values)
        return made


class _Step:
    __slots__ = ("call", "operands", "output", "writes")

    def __init__(self, call: Any, output: int, operands: list[Restride | int], *, writes: bool) -> None:
        self.call = call
        self.output = output
        self.operands = operands
        self.writes = writes

    def __call__(self, made: list[Tensor], values: Values[Any]) -> list[Tensor]:
        buffer = [made[self.output]]
        operands = [values[o] if type(o) is int else o(buffer)[0] for o in self.operands]
        if self.writes:
            self.call.again(self.call.operands(operands))
            return []
        return self.call(operands)


def grown(growth: Any, replay: Overwrite, operands: Values[Tensor]) -> tuple[Sequence, list[int]]:
    """The whole call after a write that ran on these operands, and the calls that are part of it now.
    ``growth`` is what the core found before the write.
    """
    maker, width, output, inside, joined = growth
    sequence = maker if type(maker) is Sequence else Sequence(maker, width)
    for _, reader, values in joined:
        sequence.read(reader, output, values)
    # The core appends what the write reads elsewhere to the arguments of the call.
    places = iter(range(width, width + len(operands)))
    sequence.write(
        replay,
        output,
        [Restride(o) if within else next(places) for o, within in zip(operands, inside, strict=True)],
    )
    return sequence, [call for call, _, _ in joined]
