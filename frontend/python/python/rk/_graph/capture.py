"""The joint graph of a model on a sample, read without running the model.

Dynamo and AOTAutograd trace the model as ``torch.compile`` would; when the joint graph is there, the
compilation is called off. Parameters, buffers and generators stay as they were, and nothing stays compiled.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from rk._graph import joint, regions
from rk._graph.step import Step
from rk.errors import CompileError, RkError


class _CalledOff(Exception):
    """Carries the step out of the compiler."""

    def __init__(self, step: Step) -> None:
        super().__init__("the joint graph has been read")
        self.step = step


def arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A sample as arguments of the model: a mapping holds keywords, a tuple or list positions, anything else
    is the only one.
    """
    if isinstance(sample, Mapping):
        return (), dict(sample)
    if isinstance(sample, (tuple, list)):
        return tuple(sample), {}
    return (sample,), {}


def step_of(
    model: nn.Module | Callable[..., Any], sample: Any, inputs: list[torch.Tensor] | None = None
) -> Step:
    """The training step of a model: forward, and backward from the gradients of its outputs.

    ``inputs`` gets the tensors that the graph is called with: parameters, buffers, those of the sample.
    Raises CompileError when the model is not one graph (a graph break is named), or has nothing to train.
    """
    from torch._dynamo.exc import BackendCompilerFailed, Unsupported

    args, kwargs = arguments(sample)

    def read(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if inputs is not None:
            inputs.extend(example_inputs)
        return _read(gm, example_inputs)

    try:
        with torch.enable_grad(), torch._dynamo.config.patch(ignore_logging_functions=_Logging()):
            torch.compile(model, backend=read, fullgraph=True, dynamic=False)(*args, **kwargs)
    except BackendCompilerFailed as failed:
        inner = failed.inner_exception
        if isinstance(inner, _CalledOff):
            return inner.step
        if isinstance(inner, RkError):
            raise inner from None
        raise
    except Unsupported as broken:
        raise CompileError(f"the model is not one graph: {broken}") from None
    raise CompileError("nothing in this call can be trained: no parameter and no input requires a gradient")


class _Logging(dict):
    """All that a model may call to write to a log: nothing is written while it is read. As a mapping it is
    empty, because Dynamo writes its settings down as JSON, and functions have no form there.
    """

    def __contains__(self, function: object) -> bool:
        return getattr(logging.Logger, getattr(function, "__name__", ""), None) is function

    def __iter__(self) -> Iterator[Any]:
        # transformers gives every logger methods that write once, and are functions of its own.
        levels = ("debug", "info", "warning", "error", "exception", "critical", "log")
        names = [name for name in dir(logging.Logger) if name in levels or name.endswith("_once")]
        return iter([getattr(logging.Logger, name) for name in names])


def _read(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    regions.write_out(gm)
    return aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        inference_compiler=boxed_nop,
        partition_fn=functools.partial(_call_off, example_inputs),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _call_off(
    given: Sequence[Any],
    gm: fx.GraphModule,
    _inputs: Any,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None = None,
    **_: Any,
) -> Any:
    from rk._graph import normalize, unplannable

    unplannable.check(gm.graph)
    normalize.normalize(gm.graph, num_fwd_outputs)
    static = joint.static(gm.graph, static_lifetime_input_indices, given)
    raise _CalledOff(Step(gm, num_fwd_outputs, static))
