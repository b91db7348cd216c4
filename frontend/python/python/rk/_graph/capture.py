"""The joint graph of a model on a sample, read without running the model.

Dynamo and AOTAutograd trace the model as ``torch.compile`` would; when the joint graph is there, the
compilation is called off. Parameters, buffers and generators stay as they were, and nothing stays compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

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


def step_of(model: nn.Module | Callable[..., Any], sample: Any) -> Step:
    """The training step of a model: forward, and backward from the gradients of its outputs.

    Raises CompileError when the model is not one graph (a graph break is named), or has nothing to train.
    """
    from torch._dynamo.exc import BackendCompilerFailed, Unsupported

    args, kwargs = arguments(sample)
    try:
        with torch.enable_grad():
            torch.compile(model, backend=_read, fullgraph=True, dynamic=False)(*args, **kwargs)
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


def _read(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    return aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        inference_compiler=boxed_nop,
        partition_fn=_call_off,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _call_off(
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
    raise _CalledOff(Step(gm, num_fwd_outputs, static_lifetime_input_indices or ()))
