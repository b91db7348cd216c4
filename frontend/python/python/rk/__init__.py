"""rk makes the training step of a PyTorch model fit in a byte budget, and computes the same bits.

``torch.compile(model, backend="rk", options={"budget": "2GiB"})`` needs no import of this package;
:func:`compile` is the same with the options checked at once. ``with rk.memory_budget("2GiB"):`` is for models
whose graph changes at every step (:mod:`rk.online`).
"""

from __future__ import annotations

import warnings
from typing import Any

from rk._rk import solvers
from rk.errors import BudgetError, CompileError, OptionError, RkError, VerifyError

__all__ = ["BudgetError", "CompileError", "OptionError", "RkError", "VerifyError", "compile", "solvers"]


def compile(model: Any, *, dynamic: bool | None = None, fullgraph: bool = False, **options: Any) -> Any:
    """``torch.compile`` with the backend rk; options are checked before anything is compiled.

    Raises OptionError for an unknown option, unit or value.
    """
    import torch

    from rk.options import Options
    from rk.torch_backend import rk

    checked = Options.parse(options)
    recurrent = isinstance(model, torch.nn.Module) and any(
        isinstance(m, torch.nn.RNNBase) for m in model.modules()
    )
    if recurrent and not torch._dynamo.config.allow_rnn:
        warnings.warn(
            "rk: Dynamo does not trace recurrent layers, so they are not planned; "
            "torch._dynamo.config.allow_rnn = True makes it trace them",
            stacklevel=2,
        )
    return torch.compile(model, backend=rk, dynamic=dynamic, fullgraph=fullgraph, options=checked.as_dict())


# These need torch, which is imported when the first of them is asked for.
_ONLINE = (
    "OutOfMemoryError",
    "checkpoint",
    "decheckpoint",
    "is_checkpoint",
    "memory_budget",
    "reset_statistics",
    "set_memory_budget",
    "statistics",
    "unset_memory_budget",
)
__all__ += list(_ONLINE)


def __getattr__(name: str) -> Any:
    if name in _ONLINE:
        from rk import online

        return getattr(online, name)
    raise AttributeError(f"module 'rk' has no attribute {name!r}")
