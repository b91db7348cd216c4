"""rk makes the training step of a PyTorch model fit in a byte budget, and computes the same bits.

``torch.compile(model, backend="rk", options={"budget": "2GiB"})`` needs no import of this package;
:func:`compile` is the same with the options checked at once. ``with rk.memory_budget("2GiB"):`` is for models
whose graph changes at every step (:mod:`rk._online.budget`).
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from rk._rk import solvers, version
from rk.errors import (
    BudgetError,
    CompileError,
    ExecutionError,
    OptionError,
    RkError,
    TorchError,
    VerifyError,
)

if TYPE_CHECKING:
    # What type checkers and editors see of the names in _LATE.
    from rk import config as config
    from rk import models as models
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
    from rk._run.plans import plans as plans

__version__ = version()

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
}
"""What is imported when it is first used, and from where: PyTorch loads slowly."""

__all__ = ["BudgetError", "CompileError", "ExecutionError", "OptionError", "RkError", "TorchError"]
__all__ += ["VerifyError", "compile", "config", "models", "solvers", *_LATE]


if not TYPE_CHECKING:
    # A type checker that saw it would believe every name.
    def __getattr__(name: str) -> Any:
        if name in ("config", "models"):
            return importlib.import_module(f"rk.{name}")
        if name not in _LATE:
            raise AttributeError(f"module 'rk' has no attribute '{name}'")
        found = getattr(importlib.import_module(f"rk.{_LATE[name]}"), name)
        globals()[name] = found
        return found


def compile(
    model: Any,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    optimizer: Any = None,
    **options: Any,
) -> Any:
    """``torch.compile`` with the backend rk; options are checked before anything is compiled.

    ``optimizer`` is the one that will train the model, or several: with scope ``device`` its state counts
    before it exists.

    Raises OptionError for an unknown option, unit or value. The first call raises BudgetError when nothing
    fits, and CompileError when the budget governs nothing because Dynamo gave the model up (option
    ``on_unplanned``).
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
