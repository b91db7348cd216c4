"""rk-GraphBuilder's names for the stages of a step: ``import rk.rkgb as rkgb``.

>>> result = rkgb.make_all_graphs(model, sample)
>>> rkgb.print_all_graphs(result, name="resnet101", render_format="pdf")

Every function is a door to a stage of the dialect (``rk.graphs``): B is ``raw``, D ``dataflow``, S
``simplified``, K ``costed``. All of them hold forward and backward, all can be drawn, and nothing is run to
make them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from rk._report.stages import StepGraph
from rk.rkgb.blocks import Block, S_list_to_K_list_eco, cut
from rk.rkgb.printing import print_all_graphs, print_graph, print_graph_list
from rk.rkgb.result import Result

__all__ = [
    "Atools",
    "B_to_D",
    "Block",
    "Btools",
    "D_to_S",
    "Dtools",
    "Ktools",
    "Result",
    "S_list_to_K_list_eco",
    "S_to_K",
    "Stools",
    "cut",
    "make_B",
    "make_all_graphs",
    "print_D_graph",
    "print_K_graph",
    "print_K_graph_list",
    "print_S_graph",
    "print_S_graph_list",
    "print_all_graphs",
    "print_graph",
    "print_graph_list",
    "print_inputs",
    "test_rkgb",
]


def make_all_graphs(
    model: Any,
    model_inputs: Any,
    model_kwargs: Mapping[str, Any] | None = None,
    verbose: bool = False,
    impose_device: bool = True,
    check_device_is_gpu: bool = True,
    **options: Any,
) -> Result:
    """The training step of a model at every stage, and its blocks.

    ``model_inputs`` is one input, a list or tuple of arguments, or a dict of keywords; ``options`` are those
    of the backend, and with a ``budget`` there is a ``scheduled`` graph, too. What rk-GB has as ``bool_bg``
    and so on is accepted: graphs are made when they are asked for. So are the other three.
    """
    asked = {name: value for name, value in options.items() if not name.startswith("bool_")}
    return Result(model, model_inputs, model_kwargs, **asked)


def test_rkgb(
    module: Any, model_inputs: Any, model_kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Result:
    """Makes all graphs, executes each of them, and compares results, gradients and buffers to the last bit.

    With a ``budget``, the schedule is among them. Prints what there is; returns the graphs. Raises
    VerifyError when a stage computes other bits than the graph as traced.
    """
    result = make_all_graphs(module, model_inputs, model_kwargs, **options)
    print(result.summary())
    for stage, compared in result.executed():
        print(f"{stage}: {compared} tensors are equal to the last bit")
    return result


test_rkgb.__test__ = False  # type: ignore[attr-defined]


def make_B(
    model: Any, model_inputs: Any, impose_device: bool = True, device: Any = None, **options: Any
) -> StepGraph:
    """The step as recorded: one operator per line, views and in-place operators as they ran."""
    return Result(model, model_inputs, **options).B_graph


def B_to_D(B_graph: StepGraph, model: Any = None, model_inputs: Any = None, device: Any = None) -> StepGraph:
    """Values only: nothing in place, nothing dead."""
    return B_graph.at("dataflow")


def D_to_S(
    D_graph: StepGraph, model: Any = None, device: Any = None, keep_sequential: bool = True
) -> StepGraph:
    """One real computation per node, with views and cheap arithmetic inside of it."""
    return D_graph.at("simplified")


def S_to_K(S_graph: StepGraph, model: Any = None, device: Any = None) -> StepGraph:
    """Every node with its time, the bytes of its results and of its workspace."""
    return S_graph.at("costed")


def print_inputs(model: Any) -> None:
    """Prints what the model's ``forward`` takes."""
    parameters = inspect.signature(model.forward).parameters
    print(f"{type(model).__name__}.forward takes {len(parameters)}:")
    for parameter in parameters.values():
        print(f"  {parameter}")


print_D_graph = print_S_graph = print_K_graph = print_graph
print_S_graph_list = print_K_graph_list = print_graph_list

Btools = Dtools = Stools = Ktools = Atools = sys.modules[__name__]
"""rk-GB's modules, in one: ``rkgb.Btools.make_B`` is ``rkgb.make_B``."""
