"""Rockmate's other names: ``from rk.rockmate import PureRockmate, Hiremate, from_config``.

Each is ``rk.Rockmate`` with the solver of that name; Rockmate itself is there, too. A configuration is a dict
of the backend's options.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from rk._compile.rockmate import CheckpointedModule, Rockmate
from rk._report.report import save
from rk.errors import OptionError

__all__ = [
    "CheckpointedModule",
    "Hiremate",
    "PureCheckmate",
    "PureRockmate",
    "PureRotor",
    "Rockmate",
    "from_config",
    "generate_config",
    "load_config",
    "save_config",
]

SOLVERS = {
    "rotor": "rotor",
    "rockmate": "rockmate",
    "checkmate": "checkmate",
    "hilp": "classes",
    "hiremate": "auto",
    "noremat": "keep-all",
}
"""Rockmate's kinds of configuration, and who solves in their way."""


class _WithSolver(Rockmate):
    kind: str

    def __init__(self, model: nn.Module, model_inputs: Any, budget: int | str = "auto", **options: Any):
        """As ``rk.Rockmate``; an option ``solver`` would be another class."""
        super().__init__(model, model_inputs, budget, solver=SOLVERS[self.kind], **options)


class PureRotor(_WithSolver):
    """Whole blocks are kept or run again: rotor's dynamic program."""

    kind = "rotor"


class PureCheckmate(_WithSolver):
    """One integer program over all nodes; for small models."""

    kind = "checkmate"


class PureRockmate(_WithSolver):
    """Rotor's dynamic program over blocks, with several ways through each of them."""

    kind = "rockmate"


class Hiremate(_WithSolver):
    """Everything that rk has."""

    kind = "hiremate"


def generate_config(config_type: str) -> dict[str, Any]:
    """The options of a kind of Rockmate's. Raises OptionError for another."""
    if config_type not in SOLVERS:
        raise OptionError(f"there is no configuration '{config_type}'; there are {', '.join(SOLVERS)}")
    return {"solver": SOLVERS[config_type], "time_limit": "10s"}


def save_config(config: Mapping[str, Any], filename: str | os.PathLike[str]) -> None:
    """Writes options to a file, as JSON."""
    save(Path(filename), (json.dumps(dict(config), indent=2) + "\n").encode())


def load_config(filename: str | os.PathLike[str]) -> dict[str, Any]:
    """The options in a file. Raises OptionError when there are none."""
    try:
        return dict(json.loads(Path(filename).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise OptionError(f"{os.fspath(filename)} holds no options: {error}") from error


def from_config(
    model: nn.Module,
    model_inputs: Any,
    budget: int | str | None = None,
    config_type: str = "hiremate",
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> Rockmate:
    """A model within a budget, with the options of a configuration."""
    asked = dict(generate_config(config_type) if config is None else config)
    return Rockmate(model, model_inputs, "auto" if budget is None else budget, **{**asked, **options})
