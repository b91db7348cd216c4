"""A training program as data: drawn from a seed, printed, kept as JSON, made smaller.

All fields but the layers have a plainest value, the default, which the shrinker tries first.
"""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

from campaigns.pieces import PIECES


@dataclasses.dataclass(frozen=True)
class Layer:
    """One piece of a model."""

    piece: str
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    skip: int = 0
    """Adds the value so many layers back; 0 for none."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A model, and what the caller does with it."""

    seed: int
    layers: tuple[Layer, ...]
    width: int = 16
    batches: tuple[int, ...] = (6,)
    """The rows of every step."""
    dtype: str = "float32"
    output: str = "loss"
    """What the model returns, see :data:`OUTPUTS`."""
    input: str = "plain"
    """How the rows lie in memory and whether they ask for a gradient, see :data:`INPUTS`."""
    wrap: str = "model"
    """What is compiled: the model, a function around it, or each layer by itself."""
    forwards: int = 1
    """Forward passes before the first backward pass."""
    order: str = "sum"
    """How several forward passes go backward: as one sum, each in order, or in reverse."""
    rounds: int = 1
    """How often that happens before the optimizer's step."""
    change: str = ""
    """What the caller changes between forward and backward, and how; see :data:`CHANGES`."""
    hooks: tuple[str, ...] = ()
    """What the caller hooks up, see :data:`HOOKS`."""
    optimizer: str = "sgd"
    evaluates: str = ""
    """Whether the model is evaluated between the steps: ``no_grad``, ``eval``, ``inference``."""
    autocast: bool = False
    dynamic: bool | None = False

    def __str__(self) -> str:
        """One line: the layers, and what differs from the plainest."""
        layers = ", ".join(
            one.piece
            + (str(one.parameters) if one.parameters else "")
            + (f" skip {one.skip}" if one.skip else "")
            for one in self.layers
        )
        fields = dataclasses.fields(self)[2:]
        others = (
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields
            if getattr(self, one.name) != one.default
        )
        return f"seed {self.seed}: [{layers}] {' '.join(others)}"

    def to_json(self) -> str:
        """As :meth:`from_json` reads it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Program:
        """What :meth:`to_json` wrote."""
        read = json.loads(text)
        layers = tuple(Layer(**one) for one in read.pop("layers"))
        read = {name: tuple(one) if isinstance(one, list) else one for name, one in read.items()}
        return cls(layers=layers, **read)

    def takes(self) -> tuple[str, ...]:
        """Which tensors of the caller's the model takes beside its rows."""
        return tuple(sorted({name for one in self.layers for name in PIECES[one.piece].takes}))

    def features(self) -> set[str]:
        """What the table of results is sorted by."""
        found = {PIECES[one.piece].kind for one in self.layers}
        plainest = {one.name: one.default for one in dataclasses.fields(self)}
        for name in ("output", "input", "wrap", "evaluates"):
            if getattr(self, name) != plainest[name]:
                found.add(f"{name}: {getattr(self, name)}")
        found.update(f"hook: {one}" for one in self.hooks)
        found.update({f"change: {self.change.split()[0]}"} if self.change else ())
        found.update({self.dtype} if self.dtype != "float32" else ())
        found.update({"several forwards"} if self.forwards > 1 else ())
        found.update({"sizes change"} if len(set(self.batches)) > 1 else ())
        return found | ({"dynamic"} if self.dynamic else set())


OUTPUTS = (
    "loss",
    "tensor",
    "tuple",
    "dict",
    "with input",
    "with view",
    "with none",
    "with hidden",
    "with buffer",
)
OUTPUTS += ("with detached", "losses")
INPUTS = ("plain", "leaf", "transposed", "expanded", "sliced", "computed", "offset")
CHANGES = ("buffers", "frozen", "input", "mask", "scale", "shift", "state", "output", "labels")
HOOKS = (
    "parameter",
    "accumulated",
    "saved copy",
    "saved pickle",
    "output",
    "module forward",
    "module backward",
    "retain",
)
WAYS_TO_CHANGE = ("in place", "data", "set")


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = random.Random(seed)
    names = list(PIECES)
    weights = [PIECES[name].weight for name in names]
    layers: list[Layer] = []
    for _ in range(dice.choice((1, 2, 2, 3, 3, 4))):
        (name,) = dice.choices(names, weights)
        parameters = {key: dice.choice(values) for key, values in PIECES[name].choices.items()}
        skip = dice.randint(1, len(layers) + 1) if dice.random() < 0.15 else 0
        layers.append(Layer(name, parameters, skip))
        if dice.random() < 0.5:
            layers.append(Layer("Layer", {"act": dice.choice(PIECES["Layer"].choices["act"]), "bias": True}))
    if all(PIECES[one.piece].kind not in ("layer", "norm") for one in layers):
        layers.insert(0, Layer("Layer", {"act": "gelu", "bias": True}))

    def rarely(plainest: Any, others: tuple[Any, ...], chance: float) -> Any:
        return dice.choice(others) if dice.random() < chance else plainest

    rows = dice.choice((6, 16, 16, 32, 64))
    steps = dice.choice((1, 2, 3, 3))
    batches = [rows] * steps
    if steps > 1 and dice.random() < 0.15:
        batches[-1] = rows // 2
    program = Program(
        seed=seed,
        layers=tuple(layers),
        width=dice.choice((16, 16, 32, 64)),
        batches=tuple(batches),
        dtype=rarely("float32", ("float64", "bfloat16"), 0.1),
        output=rarely("loss", OUTPUTS[1:], 0.5),
        input=rarely("plain", INPUTS[1:], 0.3),
        wrap=rarely("model", ("function", "layers"), 0.12),
        forwards=rarely(1, (2, 3), 0.15),
        order=dice.choice(("sum", "each", "reversed")),
        rounds=rarely(1, (2,), 0.1),
        hooks=tuple(sorted(dice.sample(HOOKS, dice.choice((1, 1, 2))))) if dice.random() < 0.2 else (),
        optimizer=dice.choice(("sgd", "adamw", "none")),
        evaluates=rarely("", ("no_grad", "eval", "inference"), 0.15),
        autocast=dice.random() < 0.05,
        dynamic=rarely(False, (None, None, True), 0.2),
    )
    if program.forwards == 1:
        program = dataclasses.replace(program, order="sum")
    if dice.random() < 0.25:
        own = [*program.takes(), "buffers", "buffers", "frozen", "input", "output"]
        program = dataclasses.replace(program, change=f"{dice.choice(own)} {dice.choice(WAYS_TO_CHANGE)}")
    return program
