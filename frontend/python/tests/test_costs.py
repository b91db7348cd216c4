"""The made-up values that costs are measured on."""

import torch
from torch import fx

from rk._plan import costs


def test_rows_are_those_of_a_matrix():
    """LAPACK counts rows from one and does not look: row zero lies before the matrix."""
    graph = fx.Graph()
    given = torch.linalg.lu_factor(torch.eye(8)), torch.linalg.ldl_factor(torch.eye(8))
    targets = torch.ops.aten.linalg_lu_solve.default, torch.ops.aten.linalg_ldl_solve.default
    for target, (factor, pivots) in zip(targets, given, strict=True):
        nodes = [graph.placeholder(f"{target.name()[6:]}_{place}") for place in range(3)]
        for node, value in zip(nodes, (factor, pivots, torch.eye(8)), strict=True):
            node.meta["val"] = value
        (_, rows, _), _ = costs._made_up_arguments(graph.call_function(target, tuple(nodes)))
        assert rows.min() >= 1 and rows.max() <= 8
