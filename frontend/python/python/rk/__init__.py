"""rk makes the training step of a PyTorch model fit in a byte budget, and computes the same bits.

``torch.compile(model, backend="rk", options={"budget": "2GiB"})`` needs no import of this package;
:func:`compile` is the same with the options checked at once. ``with rk.memory_budget("2GiB"):`` is for models
whose graph changes at every step (:mod:`rk._online.budget`).
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What type checkers and editors see of the names in _LATE.
    from rk import config as config
    from rk import errors as errors
    from rk import measure as measure
    from rk import models as models
    from rk import rkgb as rkgb
    from rk import rockmate as rockmate
    from rk._chain.checkpointable import Checkpointable as Checkpointable
    from rk._compile.rockmate import CheckpointedModule as CheckpointedModule
    from rk._compile.rockmate import Rockmate as Rockmate
    from rk._graph.repetition import allow_recompute as allow_recompute
    from rk._graph.trace import export as export
    from rk._online.budget import OutOfMemoryError as OutOfMemoryError
    from rk._online.budget import checkpoint as checkpoint
    from rk._online.budget import decheckpoint as decheckpoint
    from rk._online.budget import is_checkpoint as is_checkpoint
    from rk._online.budget import memory_budget as memory_budget
    from rk._online.budget import reset_statistics as reset_statistics
    from rk._online.budget import set_memory_budget as set_memory_budget
    from rk._online.budget import statistics as statistics
    from rk._online.budget import unset_memory_budget as unset_memory_budget
    from rk._plan.planning import plan as plan
    from rk._report.fit import fit as fit
    from rk._report.stages import graphs as graphs
    from rk._report.verification import verify as verify
    from rk._rk import solvers as solvers
    from rk._run.plans import plans as plans
    from rk.errors import BudgetError as BudgetError
    from rk.errors import CompileError as CompileError
    from rk.errors import ExecutionError as ExecutionError
    from rk.errors import OptionError as OptionError
    from rk.errors import RkError as RkError
    from rk.errors import TorchError as TorchError
    from rk.errors import VerifyError as VerifyError

__version__: str
"""As the extension was built."""

_LATE = {
    "CheckpointedModule": "_compile.rockmate",
    "Checkpointable": "_chain.checkpointable",
    "Rockmate": "_compile.rockmate",
    "allow_recompute": "_graph.repetition",
    "export": "_graph.trace",
    "fit": "_report.fit",
    "graphs": "_report.stages",
    "plan": "_plan.planning",
    "plans": "_run.plans",
    "solvers": "_rk",
    "verify": "_report.verification",
    "OutOfMemoryError": "_online.budget",
    "checkpoint": "_online.budget",
    "decheckpoint": "_online.budget",
    "is_checkpoint": "_online.budget",
    "memory_budget": "_online.budget",
    "reset_statistics": "_online.budget",
    "set_memory_budget": "_online.budget",
    "statistics": "_online.budget",
    "unset_memory_budget": "_online.budget",
    "BudgetError": "errors",
    "CompileError": "errors",
    "ExecutionError": "errors",
    "OptionError": "errors",
    "RkError": "errors",
    "TorchError": "errors",
    "VerifyError": "errors",
}
"""What is imported when it is first used, and from where: PyTorch loads slowly, and so does the compiler."""

_MODULES = ("config", "errors", "measure", "models", "rkgb", "rockmate")

__all__ = ["compile", *_MODULES, *_LATE]


if not TYPE_CHECKING:
    # A type checker that saw it would believe every name.
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"rk.{name}")
        if name == "__version__":
            found = importlib.import_module("rk._rk").version()
        elif name in _LATE:
            found = getattr(importlib.import_module(f"rk.{_LATE[name]}"), name)
        else:
            raise AttributeError(f"module 'rk' has no attribute '{name}'")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def compile(
    model: Any,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    optimizer: Any = None,
    **options: Any,
) -> Any:
    """``torch.compile`` with the backend rk; options are checked before anything is compiled.

    Args:
        model: A module or a function, as ``torch.compile`` takes it.
        dynamic: As for ``torch.compile``: whether sizes are symbols from the start.
        fullgraph: As for ``torch.compile``: whether a graph break is an error.
        optimizer: The one that will train the model, or several: with scope ``device`` its state counts
            before it exists.
        **options: Those of the backend, such as ``budget="60%"``; a ``budget`` in bytes is a number or a text
            with a unit.

    Returns:
        What ``torch.compile`` returns. Its first call is compiled, and raises BudgetError when nothing fits,
        and CompileError when the budget governs nothing because Dynamo gave the model up (option
        ``on_unplanned``).

    Raises:
        OptionError: An option, a unit or a value is not known.
    """
    import torch

    from rk._compile import governed
    from rk._compile.backend import rk
    from rk._plan.options import Options
    from rk._run import optimizers

    checked = Options.parse(options)
    checked.check_runs()
    if optimizer is not None:
        optimizers.announce(optimizer, checked)
    recurrent = isinstance(model, torch.nn.Module) and any(
        isinstance(m, torch.nn.RNNBase) for m in model.modules()
    )
    if recurrent and not torch._dynamo.config.allow_rnn:
        warnings.warn(
            "rk: Dynamo does not trace recurrent layers, so they are not planned; "
            "torch._dynamo.config.allow_rnn = True makes it trace them",
            stacklevel=2,
        )
    compiled = torch.compile(
        model, backend=rk, dynamic=dynamic, fullgraph=fullgraph, options=checked.as_dict()
    )
    if compiled is model:
        governed.tell(checked, "nothing", "TORCHDYNAMO_DISABLE is set, so that torch.compile does nothing")
    return compiled
