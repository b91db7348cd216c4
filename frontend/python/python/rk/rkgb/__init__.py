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

    Args:
        model: The model. Nothing of it is run.
        model_inputs: One input, a list or tuple of arguments, or a dict of keywords.
        model_kwargs: More inputs, by name.
        verbose: Accepted for rk-GB's scripts.
        impose_device: Accepted for rk-GB's scripts.
        check_device_is_gpu: Accepted for rk-GB's scripts.
        **options: Those of the backend; with a ``budget`` there is a ``scheduled`` graph, too. What rk-GB has
            as ``bool_bg`` and so on is accepted: graphs are made when they are asked for.

    Returns:
        The graphs, under the names of both versions of rk-GB.

    Raises:
        CompileError: The model is not one graph.
        OptionError: An option, a unit or a value is not known.
    """
    asked = {name: value for name, value in options.items() if not name.startswith("bool_")}
    return Result(model, model_inputs, model_kwargs, **asked)


def test_rkgb(
    module: Any, model_inputs: Any, model_kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Result:
    """Makes all graphs, executes each of them, and compares results, gradients and buffers to the last bit.

    With a ``budget``, the schedule is among them. Prints what there is.

    Args:
        module: The model.
        model_inputs: One input, a list or tuple of arguments, or a dict of keywords.
        model_kwargs: More inputs, by name.
        **options: Those of :func:`make_all_graphs`.

    Returns:
        The graphs.

    Raises:
        VerifyError: A stage computes other bits than the graph as traced.
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
    """The step as recorded: one operator per line, views and in-place operators as they ran.

    Args:
        model: The model. Nothing of it is run.
        model_inputs: One input, a list or tuple of arguments, or a dict of keywords.
        impose_device: Accepted for rk-GB's scripts.
        device: Accepted for rk-GB's scripts.
        **options: Those of the backend.

    Returns:
        The step at stage ``raw``.
    """
    return Result(model, model_inputs, **options).B_graph


def B_to_D(B_graph: StepGraph, model: Any = None, model_inputs: Any = None, device: Any = None) -> StepGraph:
    """Values only: nothing in place, nothing dead.

    Args:
        B_graph: A step at stage ``raw``.
        model: Accepted for rk-GB's scripts.
        model_inputs: Accepted for rk-GB's scripts.
        device: Accepted for rk-GB's scripts.

    Returns:
        The step at stage ``dataflow``.
    """
    return B_graph.at("dataflow")


def D_to_S(
    D_graph: StepGraph, model: Any = None, device: Any = None, keep_sequential: bool = True
) -> StepGraph:
    """One real computation per node, with views and cheap arithmetic inside of it.

    Args:
        D_graph: A step at stage ``dataflow``.
        model: Accepted for rk-GB's scripts.
        device: Accepted for rk-GB's scripts.
        keep_sequential: Accepted for rk-GB's scripts.

    Returns:
        The step at stage ``simplified``.
    """
    return D_graph.at("simplified")


def S_to_K(S_graph: StepGraph, model: Any = None, device: Any = None) -> StepGraph:
    """Every node with its time, the bytes of its results and of its workspace.

    Args:
        S_graph: A step at stage ``simplified``.
        model: Accepted for rk-GB's scripts.
        device: Accepted for rk-GB's scripts.

    Returns:
        The step at stage ``costed``.
    """
    return S_graph.at("costed")


def print_inputs(model: Any) -> None:
    """Prints what the model's ``forward`` takes.

    Args:
        model: The model.
    """
    parameters = inspect.signature(model.forward).parameters
    print(f"{type(model).__name__}.forward takes {len(parameters)}:")
    for parameter in parameters.values():
        print(f"  {parameter}")


print_D_graph = print_S_graph = print_K_graph = print_graph
print_S_graph_list = print_K_graph_list = print_graph_list

Btools = Dtools = Stools = Ktools = Atools = sys.modules[__name__]
"""rk-GB's modules, in one: ``rkgb.Btools.make_B`` is ``rkgb.make_B``."""
