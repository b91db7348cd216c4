"""The halves of graphs that this process has lowered: another budget of the same graph begins at planning.

A graph is the same if its nodes are, with what Inductor's lowering depends on: its configuration, PyTorch's
switches, the number of threads. Constants of a graph are not read, so one that has any is lowered each time.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config
from torch import fx

from rk._graph import joint, loans, settings
from rk._inductor.halves import Halves

MOST = 8
"""Graphs that are kept, the latest ones."""
_KEPT: collections.OrderedDict[str, Halves] = collections.OrderedDict()
_MARKS = (
    "recompute",
    "ac_graph_id",
    "partitioner_tag",
    "has_backward_hook",
    "memory_budget",
    "custom",
    loans.UNCHECKED,
)
"""What stands beside a node and is read by PyTorch's partition or by rk."""


def halves_of(
    gm: fx.GraphModule, outputs: int, static: Sequence[int], device: torch.device, *, obeys: bool = False
) -> Halves:
    """The halves of a joint graph (:class:`Halves`)."""
    key = _key(gm, (outputs, sorted(static), obeys, str(device), settings.text(device)))
    found = _KEPT.pop(key, None)
    if found is None:
        found = Halves(gm, outputs, static, obeys=obeys)
    if key is not None:
        _KEPT[key] = found
        while len(_KEPT) > MOST:
            _KEPT.popitem(last=False)
    return found


def _key(gm: fx.GraphModule, about: Any) -> str | None:
    """Names the graph and how it is lowered; None where that cannot be told."""
    names = {node: _Name(node.name) for node in gm.graph.nodes}
    configuration = _configuration()
    if configuration is None:
        return None
    lines = [repr(about), str(torch.get_num_threads()), configuration]
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        parts = value if isinstance(value, (list, tuple)) else [value]
        is_tensor = all(one is None or isinstance(one, (torch.Tensor, int, float, bool)) for one in parts)
        if node.op not in ("placeholder", "call_function", "output") or not is_tensor:
            return None
        args = fx.node.map_arg((node.args, node.kwargs), names.__getitem__)
        marks = [str(node.meta.get(name)) for name in _MARKS]
        path, shapes = joint.module_path(node), " ".join(map(_described, parts))
        lines.append(f"{node.name} {node.op} {node.target} {args} {shapes} {marks} {path}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _configuration() -> str | None:
    """Inductor's and its partition's, but for the hook that rk is called from; None where the user has put an
    object into it, whose doings nobody can compare.
    """
    told = []
    for config in (torch._inductor.config, torch._functorch.config):
        values = {name: getattr(config, name) for name in config._config if name != "custom_partitioner_fn"}
        if not all(map(_is_plain, values.values())):
            return None
        told.append(repr(sorted(values.items())))
    return "".join(told)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    about = (list(value.shape), list(value.stride()), value.storage_offset(), value.requires_grad)
    # Views of one storage are told by the operators that made them.
    return f"{value.dtype} {about} {value.device} {value.untyped_storage().nbytes()}"


class _Name(str):
    __repr__ = str.__str__
