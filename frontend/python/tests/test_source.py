"""The code of a pass: what it computes, what it forgets and when, and where what it calls is found."""

from __future__ import annotations

import enum
import json
import math
import operator
import types
import weakref
from typing import Any, NamedTuple

import pytest
import torch
from torch import fx

from rk._codegen import source

aten = torch.ops.aten


class Scale:
    """A value of the kind that ``torch._library.opaque_object`` lets operators take."""

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)

    def __repr__(self):
        return f"Scale({self.factor})"

    def __fx_repr__(self):
        return repr(self), {"Scale": Scale}


class Pair(NamedTuple):
    """A tuple with names."""

    left: Any
    right: Any


class Colour(enum.Enum):
    """An argument that is a member of an enumeration."""

    RED = 1


def echo(*args, **kwargs):
    """Returns what it is given."""
    return args, kwargs


def made(graph, **constants):
    """The function of a graph, whose globals went through JSON as they do through a file."""
    printed = source.Source(graph, "run")
    scope = source.found(json.loads(json.dumps(printed.globals)))
    exec(printed.text, scope)
    return types.MethodType(scope["run"], types.SimpleNamespace(**constants))


def returning(value, target=echo, **kwargs):
    """What the code gives for a call with this argument."""
    graph = fx.Graph()
    graph.output((graph.call_function(target, (value,), kwargs),))
    ((args, named),) = made(graph)([])
    return args[0], named


@pytest.mark.parametrize(
    "value",
    [0, -7, True, None, 1.5, -0.0, 1e-300, math.inf, -math.inf, "a'\"\n", b"\0", slice(1, None, -1)]
    + [[], [1, [2.0, None]], (), (1,), (1, (2, [3])), {"a": 1, 2: (3,)}]
    + [torch.float32, torch.bfloat16, torch.strided, torch.channels_last, torch.device("cpu")]
    + [1j, complex(-0.0, math.inf), Scale(3), Pair(1, [Pair(2.0, None)])]
    + [torch.device("cuda", 1), Colour.RED, aten.sin.default, operator.add, torch.Size([2, 3])],
    ids=repr,
)
def test_an_argument_is_what_it_was(value):
    found, named = returning(value, key=value)
    assert found == named["key"] == value
    # 1 is neither 1.0 nor True, and 0.0 is not -0.0.
    assert repr(found) == repr(tuple(value) if isinstance(value, torch.Size) else value)


def test_a_number_that_is_none():
    assert math.isnan(returning(math.nan)[0])


def test_names_of_values_and_of_what_is_called_are_apart():
    graph = fx.Graph()
    one, other = graph.placeholder("self"), graph.placeholder("args")
    first = graph.create_node("call_function", aten.sin.default, (one,), name="aten_cos_default")
    second = graph.create_node("call_function", aten.cos.default, (first,), name="run")
    graph.output((graph.call_function(aten.add.Tensor, (second, other)),))
    x, y = torch.randn(3), torch.randn(3)
    assert torch.equal(made(graph)([x, y])[0], x.sin().cos() + y)


def test_constants_are_those_of_the_object():
    graph = fx.Graph()
    held = graph.get_attr("_tensor_constant0")
    graph.output((graph.call_function(aten.add.Tensor, (held, 1)), held, None))
    constant = torch.arange(3)
    added, same, nothing = made(graph, _tensor_constant0=constant)([])
    assert torch.equal(added, constant + 1) and same is constant and nothing is None


def test_values_in_a_tuple_with_names_are_read():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(echo, (Pair(x, 1),)),))
    one = torch.ones(2)
    ((((given),), _),) = made(graph)([one])
    assert type(given) is Pair and given.left is one


def test_a_value_is_forgotten_after_its_last_reader():
    alive = {}

    def watch(tensor, name, others):
        alive[name] = weakref.ref(tensor)
        return sorted(key for key in others if alive[key]() is not None)

    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(aten.sin.default, (x,))
    seen = [graph.call_function(watch, (a, "a", []))]
    b = graph.call_function(aten.cos.default, (a,))
    seen.append(graph.call_function(watch, (b, "b", ["a"])))
    graph.call_function(aten.clone.default, (b,))
    c = graph.call_function(aten.max.dim, (b, 0))
    d = graph.call_function(operator.getitem, (c, 0))
    seen.append(graph.call_function(watch, (d, "d", ["a", "b"])))
    graph.output((*seen, d))
    printed = source.Source(graph, "run")
    assert ("object", watch) in printed.globals.values()
    scope = source.found(printed.globals)
    exec(printed.text, scope)
    args = [torch.randn(2, 2)]
    given = weakref.ref(args[0])
    *found, _ = scope["run"](None, args)
    assert found == [[], [], []] and args == [] and given() is None


def test_what_a_reader_sees_says_what_is_called():
    graph = fx.Graph()
    graph.output((graph.call_function(aten.full.default, ([2], math.inf), {"dtype": torch.float64}),))
    assert source.Source(graph, "run").readable() == (
        "# aten_full_default: torch.ops.aten.full.default\n"
        "# float64: torch.float64\n"
        "# float_constant: inf\n"
        "def run(self, args):\n"
        "    args.clear()\n"
        "    full_default = aten_full_default([2], float_constant, dtype=float64)\n"
        "    return (full_default, )\n"
    )


def test_what_has_no_name_is_found_in_this_process_only():
    def local():
        """Found by nobody."""

    assert source.address(local) == ("object", local)
    assert source.address(echo) == ("name", [__name__, "echo"])
    local.__module__ = ""
    assert source.address(local) == ("object", local)
    assert not source.is_lasting(("text", ["f(1)", {"f": source.address(local)}]))
