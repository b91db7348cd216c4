"""The exceptions of the package, made by the extension so that Rust and Python raise the same ones."""

from rk._rk import BudgetError, CompileError, OptionError, RkError

__all__ = [
    "BudgetError",
    "CompileError",
    "ExecutionError",
    "OptionError",
    "RkError",
    "TorchError",
    "VerifyError",
]


class TorchError(RkError, ImportError):
    """This version of torch lacks a part that rk needs."""


class VerifyError(RkError):
    """With ``verify=True``: a planned step computed other bits than the step without a plan."""


class ExecutionError(RkError):
    """With ``codegen="rk"``: an operator of a step failed, or the step was called out of turn."""
