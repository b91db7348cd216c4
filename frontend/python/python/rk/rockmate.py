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
from rk._plan.files import save
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

_SOLVERS = {
    "rotor": "rotor",
    "rockmate": "rockmate",
    "checkmate": "checkmate",
    "hilp": "classes",
    "hiremate": "auto",
    "noremat": "keep-all",
}
"""Rockmate's kinds of configuration, and who solves in their way."""


class _WithSolver(Rockmate):
    _kind: str

    def __init__(
        self, model: nn.Module, model_inputs: Any, budget: int | str = "auto", **options: Any
    ) -> None:
        """As ``rk.Rockmate``; an option ``solver`` would be another class.

        Args:
            model: The model.
            model_inputs: One input, a tuple of arguments, or a dict of keywords.
            budget: Bytes, ``"2GiB"``, a share such as ``"60%"``, or ``"auto"``.
            **options: Those of the backend.
        """
        super().__init__(model, model_inputs, budget, solver=_SOLVERS[self._kind], **options)


class PureRotor(_WithSolver):
    """Whole blocks are kept or run again: rotor's dynamic program."""

    _kind = "rotor"


class PureCheckmate(_WithSolver):
    """One integer program over all nodes; for small models."""

    _kind = "checkmate"


class PureRockmate(_WithSolver):
    """Rotor's dynamic program over blocks, with several ways through each of them."""

    _kind = "rockmate"


class Hiremate(_WithSolver):
    """Everything that rk has."""

    _kind = "hiremate"


def generate_config(config_type: str) -> dict[str, Any]:
    """The options of one of Rockmate's kinds.

    Args:
        config_type: ``rotor``, ``rockmate``, ``checkmate``, ``hilp``, ``hiremate`` or ``noremat``.

    Returns:
        Options of the backend.

    Raises:
        OptionError: There is no such kind.
    """
    if config_type not in _SOLVERS:
        raise OptionError(f"there is no configuration '{config_type}'; there are {', '.join(_SOLVERS)}")
    return {"solver": _SOLVERS[config_type], "time_limit": "10s"}


def save_config(config: Mapping[str, Any], filename: str | os.PathLike[str]) -> None:
    """Writes options to a file, as JSON.

    Args:
        config: Options of the backend.
        filename: The file to write.
    """
    save(Path(filename), (json.dumps(dict(config), indent=2) + "\n").encode())


def load_config(filename: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads options from a file.

    Args:
        filename: What :func:`save_config` wrote.

    Returns:
        Options of the backend.

    Raises:
        OptionError: The file holds none.
    """
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
    """A model within a budget, with the options of a configuration.

    Args:
        model: The model.
        model_inputs: One input, a tuple of arguments, or a dict of keywords.
        budget: Bytes, ``"2GiB"``, a share such as ``"60%"``; what the device has left without it.
        config_type: One of Rockmate's kinds, as :func:`generate_config` has them.
        config: Options instead of those of a kind.
        **options: More of them, which come first.

    Returns:
        The model, ready to train.

    Raises:
        BudgetError: Nothing fits into the budget.
        CompileError: The model is not one graph.
        OptionError: An option, a unit or a value is not known.
    """
    asked = dict(generate_config(config_type) if config is None else config)
    return Rockmate(model, model_inputs, "auto" if budget is None else budget, **{**asked, **options})
