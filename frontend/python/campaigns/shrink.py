"""Makes a failing program smaller as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from campaigns.pieces import PIECES
from campaigns.program import Layer, Program

TRIALS = 120
"""After so many the smallest so far has to do."""


def shrink(program: Program, fails: Callable[[Program], bool], trials: int = TRIALS) -> Program:
    """A smaller program for which ``fails`` is true, too."""
    tried = {program.to_json()}
    progress = True
    while progress and trials > 0:
        progress = False
        for smaller in candidates(program):
            text = smaller.to_json()
            if text in tried:
                continue
            tried.add(text)
            trials -= 1
            if fails(smaller):
                program, progress = smaller, True
                break
            if trials <= 0:
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest steps first."""
    with_ = lambda **fields: dataclasses.replace(program, **fields)  # noqa: E731
    layers = program.layers
    half = len(layers) // 2
    if half > 1:
        yield with_(layers=layers[half:])
        yield with_(layers=layers[:half])
    for place in range(len(layers)):
        if len(layers) > 1:
            yield with_(layers=layers[:place] + layers[place + 1 :])
    for field in dataclasses.fields(program):
        if field.name not in ("seed", "layers", "batches") and getattr(program, field.name) != field.default:
            yield with_(**{field.name: field.default})
    if len(program.batches) > 1:
        yield with_(batches=program.batches[:1])
        yield with_(batches=program.batches[1:])
    for place in range(len(program.hooks)):
        yield with_(hooks=program.hooks[:place] + program.hooks[place + 1 :])
    if max(program.batches) > 6:
        yield with_(batches=tuple(min(6, one) for one in program.batches))
    if program.forwards > 2:
        yield with_(forwards=2)
    for place, layer in enumerate(layers):
        for simpler in _simpler(layer):
            yield with_(layers=(*layers[:place], simpler, *layers[place + 1 :]))


def _simpler(layer: Layer) -> Iterator[Layer]:
    if layer.skip:
        yield dataclasses.replace(layer, skip=0)
    choices: dict[str, Any] = PIECES[layer.piece].choices
    for name, value in layer.parameters.items():
        if value != choices[name][0]:
            yield dataclasses.replace(layer, parameters={**layer.parameters, name: choices[name][0]})
