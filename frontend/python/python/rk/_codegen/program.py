"""The two graphs of a schedule as Python code, kept on disk: a later process does not write them again.

AOTAutograd reads only what goes into the graphs and what comes out of them. So it is given graphs of one call
each, with the right inputs and outputs, and what runs is the code that ``torch.fx`` prints for the graphs of
:mod:`rk._codegen.emit`. Writing those graphs and printing them takes longer than all else when a plan is on
disk.
"""

from __future__ import annotations

import base64
import functools
import importlib
import importlib.util
import inspect
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
from torch.fx.graph import _BoxedCodeGen

from rk._codegen import emit
from rk._graph import loans
from rk._graph.step import Step
from rk._plan import cache

Run = Callable[[list[Any]], Sequence[Any]]
Dump = Callable[[str, str], None]
PASSES = ("forward", "backward")
_WRITER = " ".join(
    f"{os.stat(module.__file__).st_size} {os.stat(module.__file__).st_mtime_ns}"
    for module in (emit, sys.modules[__name__])
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
        if all(kind != "object" for one in PASSES for kind, _ in about[one]["globals"].values()):
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
        graph.set_codegen(_BoxedCodeGen())
        printed = graph.python_code(root_module="self")
        if dump is not None:
            dump(name, printed.src)
        code = compile(printed.src, f"<rk {name}>", "exec")
        used = {one for part in code.co_consts if inspect.iscode(part) for one in part.co_names}
        about[name] = {
            "code": base64.b64encode(marshal.dumps(code)).decode(),
            "globals": {one: _address(value) for one, value in printed.globals.items() if one in used},
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


def _address(value: Any) -> tuple[str, Any]:
    """How another process finds what the code calls; ``object`` if it cannot."""
    if isinstance(value, types.ModuleType):
        return "module", value.__name__
    if isinstance(value, float):
        return "value", value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if isinstance(module, str) and getattr(sys.modules.get(module), name, None) is value:
        return "name", [module, name]
    return "object", value


def _found(kind: str, address: Any) -> Any:
    if kind == "module":
        return importlib.import_module(address)
    return getattr(importlib.import_module(address[0]), address[1]) if kind == "name" else address


def _function(about: dict[str, Any], constants: types.SimpleNamespace) -> Run:
    """The code of a pass as a function that empties the list of its arguments."""
    scope = {name: _found(*address) for name, address in about["globals"].items()}
    exec(marshal.loads(base64.b64decode(about["code"])), scope)
    run = types.MethodType(scope["forward"], constants)

    def boxed(args: list[Any]) -> Sequence[Any]:
        return run(args)

    boxed._boxed_call = True
    return boxed
