"""What a user knows a graph by: the module and the function that it is of, and where it ends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from rk._graph import joint

RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
"""How Dynamo calls the rest of a function that it has cut."""
TORCH = Path(torch.__file__).parent


def of(reason: Any, graph: fx.Graph, module: nn.Module | None) -> str:
    """The name of a graph of Dynamo's, whose account of its end is ``reason``, in a call of ``module``.

    Lines of PyTorch's own files say nothing: a layer of ``nn`` that is compiled by itself has no other.
    """
    frames = [one for one in getattr(reason, "user_stack", None) or [] if not _is_of_torch(one.filename)]
    line = ""
    if frames:
        function = RESUMED.sub(r"\1", frames[-1].name)
        line = f"{function} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
    path = _shared_path(graph)
    if path:
        return f"{path} ({line})" if line else path
    return line or (_kind(module) if module is not None else "a graph")


def _is_of_torch(file: str) -> bool:
    return Path(file).is_relative_to(TORCH)


def _shared_path(graph: fx.Graph) -> str:
    """The path of the innermost module that all calls of a graph are in; empty if that is the root."""
    calls = (node for node in graph.nodes if node.op.startswith("call_"))
    found = (node.meta.get("nn_module_stack") or {} for node in calls)
    path = ""
    for level in zip(*(stack.values() for stack in found), strict=False):
        paths = {joint.path_of(str(one)) for one, _ in level}
        if len(paths) > 1:
            break
        (path,) = paths
    return path


def _kind(module: nn.Module) -> str:
    """The class of a module, and of a sequence what it consists of."""
    name = type(module).__name__
    parts = dict.fromkeys(type(one).__name__ for one in module.children())
    return f"{name} of {', '.join(parts)}" if type(module) is nn.Sequential and parts else name
