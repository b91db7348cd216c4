"""The two graphs of a schedule as Python code, kept on disk: a later process does not write them again.

AOTAutograd reads only what goes into the graphs and what comes out of them. So it is given graphs of one
call each, with the right inputs and outputs, and what runs is the code (:mod:`rk._codegen.source`) of the
graphs of :mod:`rk._codegen.emit`. Writing those graphs and their code takes longer than all else when a plan
is on disk.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import marshal
import operator
import os
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from rk._codegen import emit, source
from rk._graph import loans
from rk._graph.step import Step
from rk._plan import cache

Run = Callable[[list[Any]], Sequence[Any]]
Dump = Callable[[str, str], None]
PASSES = ("forward", "backward")
_FUNCTION = "run"
"""The name of the function in the code of a pass."""
_WRITER = " ".join(
    f"{os.stat(module.__file__).st_size} {os.stat(module.__file__).st_mtime_ns}"
    for module in (emit, source, sys.modules[__name__])
)
"""What wrote the code: another version may write other code."""


def suits(step: Step) -> bool:
    """Whether the passes of AOTAutograd that follow have nothing to rewrite: operators of higher order, which
    carry tokens and graphs, must stay in their sight.
    """
    higher = (isinstance(one, torch._ops.HigherOrderOperator) for one in step.targets)
    return bool(step.tangents) and not any(higher)


class Program:
    """Forward and backward, ready to run."""

    def __init__(self, step: Step, about: dict[str, Any]) -> None:
        """``about`` is what :func:`written` gives, or what it gave to an earlier process."""
        self.first_activation: int | None = about["first_activation"]
        self._about = about
        self._named = step.named
        self._constants = types.SimpleNamespace()
        for node in step.gm.graph.find_nodes(op="get_attr"):
            setattr(self._constants, node.target, getattr(step.gm, node.target))

    @functools.cached_property
    def forward(self) -> Run:
        """The forward pass."""
        return _function(self._about["forward"], self._constants)

    @functools.cached_property
    def backward(self) -> Run:
        """The backward pass."""
        return _function(self._about["backward"], self._constants)

    def modules(self) -> list[fx.GraphModule]:
        """The graphs of one call that AOTAutograd reads."""
        made = [self._outside(name, getattr(self, name)) for name in PASSES]
        self._lengths = [len(module.graph.nodes) for module in made]
        # They hold the joint graph.
        del self._named, self._about
        return made

    def untouched(self, gm: fx.GraphModule, name: str) -> bool:
        """Whether nothing has been added since to what :meth:`modules` gave."""
        return len(gm.graph.nodes) == self._lengths[PASSES.index(name)]

    def _outside(self, name: str, run: Run) -> fx.GraphModule:
        about, graph = self._about[name], fx.Graph()

        def whole(*args: Any) -> Sequence[Any]:
            return run(list(args))

        whole.__name__ = whole.__qualname__ = f"rk_{name}"
        inputs = []
        for target, origin in about["inputs"]:
            inputs.append(graph.create_node("placeholder", target, name=target))
            inputs[-1].meta.update(self._meta(*origin))
        call = graph.create_node("call_function", whole, tuple(inputs))
        outputs = []
        for place, (kind, value) in enumerate(about["outputs"]):
            if kind == "value":
                outputs.append(value)
            elif kind == "input":
                outputs.append(inputs[value])
            else:
                pick = operator.getitem, (call, place)
                outputs.append(graph.create_node("call_function", *pick, name=f"result_{place}"))
                outputs[-1].meta.update(self._meta(kind, value))
        end = len(outputs) - about["opaque"]
        for one in outputs[end - about["unchecked"] : end]:
            one.meta[loans.UNCHECKED] = True
        graph.output(tuple(outputs))
        return fx._lazy_graph_module._make_graph_module({}, graph)

    def _meta(self, kind: str, name: str) -> dict[str, Any]:
        origin = self._named[name]
        return emit.meta_of(kind, origin)


def recorded(
    step: Step,
    runs: Sequence[tuple[int, bool]],
    folder: Path,
    dump: Dump | None = None,
    *,
    moves: Sequence[emit.Move] = (),
    switched: bool = False,
    remembered: Sequence[str] = (),
) -> dict[str, Any]:
    """What a :class:`Program` is made of: from disk, or written and put there. ``dump`` gets the source of a
    pass; ``moves``, ``switched`` and ``remembered`` are those of :class:`rk._codegen.emit.Emitter`.
    """
    where = f"{torch.__version__} {importlib.util.MAGIC_NUMBER.hex()} {_WRITER}"
    more = [*map(str, moves), *["switched"] * switched, *remembered]
    name = f"code-{cache.key_of(step.fingerprint, str(runs), where, *more)}"
    about = cache.read(folder, name) if dump is None else None
    if about is None:
        emitter = emit.Emitter(step, runs, moves=moves, switched=switched, remembered=remembered)
        about = written(emitter, dump)
        if all(source.is_lasting(one) for name in PASSES for one in about[name]["globals"].values()):
            cache.write(folder, name, about)
    return about


def written(emitter: emit.Emitter, dump: Dump | None) -> dict[str, Any]:
    """Both graphs as data: their code, and what goes in and comes out by its name in the joint graph."""
    about: dict[str, Any] = {
        "first_activation": emitter.first_activation(),
        "remembered": list(emitter.remembered),
        "replays": emitter.replays,
    }
    for name, graph in zip(PASSES, (emitter.forward, emitter.backward), strict=True):
        inputs = {node: place for place, node in enumerate(graph.find_nodes(op="placeholder"))}
        outputs = [_reference(one, inputs, emitter) for one in graph.output_node().args[0]]
        printed = source.Source(graph, _FUNCTION)
        if dump is not None:
            dump(name, printed.readable())
        code = compile(printed.text, f"<rk {name}>", "exec")
        about[name] = {
            "code": base64.b64encode(marshal.dumps(code)).decode(),
            "globals": printed.globals,
            "inputs": [(node.target, _origin(node, emitter)) for node in inputs],
            "outputs": outputs,
            "unchecked": emitter.unchecked if name == "forward" else 0,
            "opaque": emitter.opaque if name == "forward" else 0,
        }
    return about


def _reference(value: Any, inputs: dict[fx.Node, int], emitter: emit.Emitter) -> tuple[str, Any]:
    if not isinstance(value, fx.Node):
        return "value", value
    return ("input", inputs[value]) if value in inputs else _origin(value, emitter)


def _origin(instance: fx.Node, emitter: emit.Emitter) -> tuple[str, str]:
    origin = emitter.origins[instance]
    if instance in emitter.host_instances:
        return "host", origin.name
    return "state" if instance in emitter.state_instances else "node", origin.name


def _function(about: dict[str, Any], constants: types.SimpleNamespace) -> Run:
    """The code of a pass as a function that empties the list of its arguments."""
    scope = source.found(about["globals"])
    exec(marshal.loads(base64.b64decode(about["code"])), scope)
    run = types.MethodType(scope[_FUNCTION], constants)

    def boxed(args: list[Any]) -> Sequence[Any]:
        return run(args)

    boxed._boxed_call = True
    return boxed
