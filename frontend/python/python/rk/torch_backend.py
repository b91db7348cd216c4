"""The backend of ``torch.compile``: a thin hook between AOTAutograd and the planner.

PyTorch finds :func:`rk` through the entry point group ``torch_dynamo_backends``; nothing needs to be
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from rk.errors import OptionError
from rk.options import Options


def rk(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one graph of Dynamo; called by ``torch.compile``."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    if mode is not None and mode != "default":
        raise OptionError(f"rk has no modes (mode={mode!r}); say options={{'budget': '2GiB'}}")
    compiler = Compiler(Options.parse(options))
    return aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        inference_compiler=boxed_nop,
        partition_fn=compiler.partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


class Compiler:
    """What AOTAutograd calls for one graph."""

    def __init__(self, options: Options) -> None:
        """Keeps the options."""
        self.options = options

    def partition(
        self,
        gm: fx.GraphModule,
        _inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **_: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Splits a joint graph into forward and backward, as a plan within the budget says."""
        from rk import emit, normalize, schedule
        from rk.graph_text import Step

        normalize.normalize(gm.graph)
        step = Step(gm, num_fwd_outputs, static_lifetime_input_indices or ())
        device = device_of(step)
        planned = schedule.plan(step, self.options, device, self.options.budget)
        return emit.Emitter(step, planned.runs).modules()


def device_of(step: Any) -> torch.device:
    """The device that the step runs on."""
    from rk import joint

    tensors = [joint.tensor_of(node) for node in step.placeholders]
    devices = {tensor.device for tensor in tensors if tensor is not None}
    others = {device for device in devices if device.type != "cpu"}
    return next(iter(others)) if others else torch.device("cpu")
