"""``rk.export``: a model as the file that ``rk-import`` reads."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rk._graph import capture
from rk.errors import CompileError


class _Plain(nn.Module):
    """Calls a model with keywords and hands out its tensors only, as a trace must."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.training = model.training

    def forward(self, *args: torch.Tensor) -> Any:
        """The tensors that the model returns; the loss alone where it names one."""
        positions = args[: len(args) - len(self.names)]
        output = self.model(*positions, **dict(zip(self.names, args[len(positions) :], strict=True)))
        loss = output.get("loss") if isinstance(output, dict) else None
        if isinstance(loss, torch.Tensor):
            return loss
        tensors = [one for one in torch.utils._pytree.tree_leaves(output) if isinstance(one, torch.Tensor)]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)


def export(model: nn.Module, sample: Any, path: str | os.PathLike[str]) -> Path:
    """Writes ``torch.jit.trace`` of a model, in the mode it is in, to a file for ``rk-import``.

    The trace runs the model twice forward; buffers and generators are put back afterwards.

    Args:
        model: The model.
        sample: One tensor, a tuple of arguments, or a dict of keywords.
        path: The file to write.

    Returns:
        The path.

    Raises:
        CompileError: The model cannot be traced.
    """
    from rk._plan.files import save

    args, kwargs = capture.arguments(sample)
    kwargs = {name: value for name, value in kwargs.items() if isinstance(value, torch.Tensor)}
    others = [value for value in args if not isinstance(value, torch.Tensor)]
    if others:
        raise CompileError(f"a trace takes tensors only, not {type(others[0]).__name__}")
    path = Path(path)
    buffers = [(one, one.detach().clone()) for one in model.buffers()]
    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = _trace(model, args, kwargs)
    except Exception as error:
        raise CompileError(f"torch.jit.trace cannot read this model: {error}") from error
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
    save(path, traced.save_to_buffer())
    return path


def _trace(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, torch.Tensor]) -> Any:
    """The model itself where a trace can be made of it, so that names stay short; else with its calls
    flattened.
    """
    if not kwargs:
        try:
            return torch.jit.trace(model, args, check_trace=False)
        except RuntimeError as error:
            first = error
            try:
                return _flattened(model, args, kwargs)
            except RuntimeError as error:
                # What is wrong with the model itself says more than what is wrong with it in a wrapper.
                raise first from error
    return _flattened(model, args, kwargs)


def _flattened(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, torch.Tensor]) -> Any:
    return torch.jit.trace(_Plain(model, tuple(kwargs)), (*args, *kwargs.values()), check_trace=False)
