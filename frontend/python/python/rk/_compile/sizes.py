"""Graphs with symbolic sizes: one compiled graph for every set of sizes, because a plan is a promise for
known sizes.

Numbers beside sizes are Dynamo's to decide on. With ``dynamic=True`` it makes inputs of floats, too (the
``eps`` of a norm), lets AOTAutograd find out which of them can stay inputs, and starts again with the others
as constants. It expects that while it compiles, so AOTAutograd is let to look at such a graph at once
(:func:`settle_numbers`), although nothing can be compiled yet. A graph with such an input is compiled when
it is called, whether or not its sizes are known: Dynamo lets nobody look at its tensors twice.

A graph without a backward pass has no plan. It is compiled once, for all sizes, as PyTorch does it: that is
what evaluation, generation and compiled autograd's backward graphs are.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from rk._graph.copies import copied
from rk.errors import CompileError

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
MANY, MOST = 16, 64
"""Sets of sizes of one graph from which on the user is told, and that are kept at most."""


def leaves(inputs: Any) -> Iterator[Any]:
    """What is in a list of inputs, and in lists among them, as compiled autograd hands them in."""
    for one in inputs:
        if isinstance(one, (list, tuple)):
            yield from leaves(one)
        else:
            yield one


def is_symbolic(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph is meant for more than one set of sizes, or was while Dynamo traced it."""
    # Of sizes that were found to be known, Dynamo's own tensors still make symbols.
    traced = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    return any(isinstance(one, SYMBOLIC) or _has_symbols(one) for one in (*leaves(inputs), *traced))


def _has_symbols(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    # Sizes that Dynamo has found out are integers here; operators on the tensor still make symbols.
    return value._has_symbolic_sizes_strides


def trains(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph that is compiled now has a backward pass."""
    tensors = (one for one in leaves(inputs) if isinstance(one, torch.Tensor))
    return torch.is_grad_enabled() and any(one.requires_grad for one in (*tensors, *gm.parameters()))


class _CalledOff(Exception):
    """AOTAutograd has seen the numbers."""


def settle_numbers(gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Lets AOTAutograd tell Dynamo which floats among the inputs must be constants, if there are any."""
    if reads_numbers(gm):

        def call_off(*_: Any, **__: Any) -> Any:
            raise _CalledOff

        with contextlib.suppress(_CalledOff):
            aot_autograd(
                fw_compiler=call_off,
                bw_compiler=boxed_nop,
                inference_compiler=call_off,
                partition_fn=call_off,
                keep_inference_input_mutations=True,
            )(gm, list(inputs))


def reads_numbers(gm: fx.GraphModule) -> bool:
    """Whether floats may be among the inputs, as tensors of no dimensions."""
    return any(
        node.args[0].op == "placeholder" for node in gm.graph.find_nodes(op="call_method", target="item")
    )


def faked(inputs: Sequence[Any]) -> Sequence[Any]:
    """Inputs of known sizes as Dynamo hands them in while it compiles: numbers in them cannot be read, and
    what a model makes of them may still have sizes of its own, as nested tensors do.
    """
    if any(isinstance(one, FakeTensor) for one in leaves(inputs)):
        return inputs
    mode = FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=True))
    return [
        mode.from_tensor(one, static_shapes=True) if isinstance(one, torch.Tensor) else one for one in inputs
    ]


class BySizes:
    """A graph with symbolic sizes: one compiled graph for each of the latest :data:`MOST` sets of sizes."""

    def __init__(
        self, gm: fx.GraphModule, make: Callable[[fx.GraphModule], Any], inputs: Sequence[Any]
    ) -> None:
        """Compiles nothing yet: the sizes are known when the graph is called. CompileError for nested
        tensors, whose sizes not even the call tells.
        """
        if any(isinstance(one, torch.Tensor) and one.is_nested for one in leaves(inputs)):
            raise CompileError(
                "an input of the graph is a nested tensor, whose sizes are data: rk plans steps of known "
                "sizes. Nested tensors that are made inside of the model are planned; so are padded ones; "
                "torch.compiler.disable keeps a module out of the graph, and out of the plan"
            )
        self.gm, self.make = gm, make
        self.by_sizes: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self.symbolic = [index for index, one in enumerate(inputs) if _has_symbols(one)]
        self.others = [index for index, one in enumerate(inputs) if not isinstance(one, torch.Tensor)]
        self._is_told = False

    def __call__(self, *args: Any) -> Any:
        """Runs the graph that was compiled for these sizes."""
        key = (*(_key(args[i]) for i in self.others), *(_key(args[i]) for i in self.symbolic))
        compiled = self.by_sizes.get(key)
        if compiled is None:
            compiled = self._keep(key, self._compiled(args))
        else:
            self.by_sizes.move_to_end(key)
        return compiled(*_without_numbers(args))

    def _compiled(self, args: tuple[Any, ...]) -> Any:
        placeholders = zip(self.gm.graph.find_nodes(op="placeholder"), args, strict=True)
        numbers = {node: value for node, value in placeholders if isinstance(value, int)}
        compiled = self.make(copied(self.gm, numbers))
        compiled.compile(_without_numbers(args))
        return compiled

    def _keep(self, key: tuple[Any, ...], compiled: Any) -> Any:
        self.by_sizes[key] = compiled
        if len(self.by_sizes) >= MANY and not self._is_told:
            self._is_told = True
            warnings.warn(
                f"rk: this graph has been planned for {MANY} sets of sizes, each time anew; padding its "
                f"inputs to a few sizes saves the time. The plans of the latest {MOST} sets are kept",
                stacklevel=3,
            )
        if len(self.by_sizes) > MOST:
            self.by_sizes.popitem(last=False)
        return compiled


def _without_numbers(args: Sequence[Any]) -> list[Any]:
    """The arguments of a graph that has integers as constants."""
    return [one for one in args if not isinstance(one, int)]


def _key(value: Any) -> Any:
    """What of an argument a plan depends on."""
    if isinstance(value, torch.Tensor):
        return (value.shape, value.stride()) if value.layout is torch.strided else value.shape
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    # 1, 1.0 and True are equal, and not the same number.
    return type(value), value
