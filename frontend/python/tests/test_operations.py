"""What Inductor's kernels cost on a CPU: random numbers, functions and masks, each where it is computed."""

from __future__ import annotations

import pytest
import torch
from torch import fx
from torch._subclasses import FakeTensorMode

from rk._inductor import operations, reading

aten = torch.ops.aten
SIZE = 1024


def work_of(write):
    """The nanoseconds of all units of a graph of one argument, which ``write`` fills."""
    graph = fx.Graph()
    with FakeTensorMode():
        x = graph.placeholder("x")
        x.meta["val"] = torch.empty(SIZE)
        made = write(graph, x)
        graph.output(tuple(made))
        gm = fx.GraphModule({}, graph)
        for node in graph.nodes:
            if node.op == "call_function":
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
                node.meta["val"] = node.target(*args, **kwargs)
    return sum(unit.work for unit in reading.lowered(gm, len(made), is_backward=False).units)


def sums(graph, x):
    return [graph.call_function(aten.add.Tensor, (x, 1.0))]


def tanh(graph, x):
    return [graph.call_function(aten.tanh.default, (x,))]


def tanh_twice(graph, x):
    """Of the same value; it is computed once."""
    first, second = tanh(graph, x), tanh(graph, x)
    return [graph.call_function(aten.mul.Tensor, (*first, *second))]


def tanh_of_two(graph, x):
    (other,) = sums(graph, x)
    return [graph.call_function(aten.mul.Tensor, (*tanh(graph, x), *tanh(graph, other)))]


def mask(graph, x):
    return [graph.call_function(aten.gt.Scalar, (x, 0.5))]


def mask_inside(graph, x):
    """Nobody keeps it."""
    (where,) = mask(graph, x)
    return [graph.call_function(aten.where.self, (where, x, *sums(graph, x)))]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (sums, 0.0),
        (tanh, operations.NANOSECONDS["tanh"]),
        (tanh_twice, operations.NANOSECONDS["tanh"]),
        (tanh_of_two, 2 * operations.NANOSECONDS["tanh"]),
        (mask, operations.MASK),
        (mask_inside, 0.0),
    ],
)
def test_what_is_computed_costs_time(write, expected):
    assert work_of(write) == pytest.approx(SIZE * expected)
