"""The element types of the statistics that a norm saves for its backward pass.

On a CPU a norm whose input is of a lower precision than its weights (``torch.autocast``) computes and saves
them in the precision of the weights. PyTorch's tracing takes them to be of that of the input.
"""

from __future__ import annotations

import torch
from torch import fx

from rk._graph.joint import calls_of, is_getitem, storages_of, tensor_of
from rk._graph.loans import show_anew

aten = torch.ops.aten
NORMS = frozenset(
    {
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
        aten.native_batch_norm.default,
        aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_functional.default,
    }
)
STATISTICS = (1, 2)
"""Their places among the results."""
LOWER = (torch.bfloat16, torch.float16)


def settle(graph: fx.Graph) -> None:
    """Gives the statistics of all norms the types that they have."""
    for norm in filter(_is_mixed, calls_of(graph, NORMS)):
        values = list(norm.meta["val"])
        for place in STATISTICS:
            values[place] = values[place].to(torch.float32)
        norm.meta["val"] = tuple(values)
        for user in norm.users:
            if is_getitem(user) and user.args[1] in STATISTICS:
                _retype(user, values[user.args[1]])


def _retype(result: fx.Node, value: torch.Tensor) -> None:
    before = storages_of(result)
    views = [user for user in result.users if not before.isdisjoint(storages_of(user))]
    result.meta = {**result.meta, "val": value}
    for view in views:
        show_anew(view)


def are_by_state(norm: fx.Node) -> bool:
    """Whether a batch norm has no weights, so that only its running statistics tell in which precision it
    computes: without them it would compute in that of its input, and give other bits.
    """
    weights = [tensor_of(one) for one in norm.args[1:3] if isinstance(one, fx.Node)]
    return not weights and _is_mixed(norm)


def _is_mixed(norm: fx.Node) -> bool:
    tensors = [tensor_of(one) for one in norm.args if isinstance(one, fx.Node)]
    first, *parameters = [one for one in tensors if one is not None]
    is_lower = first.device.type == "cpu" and first.dtype in LOWER
    return is_lower and any(one.dtype is torch.float32 for one in parameters)
