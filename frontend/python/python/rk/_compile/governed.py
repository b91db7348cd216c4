"""Does a budget govern what runs? What PyTorch runs by itself, beside rk, is found and told.

Dynamo gives up quietly: a break inside of a loop, a generator, a function that is excluded, one
recompilation too many, and the frame runs as if nothing had been compiled, in any memory. So every call of a
function that was compiled for this backend is watched, whoever compiled it:

* Whether graphs of rk ran in it is counted (:func:`ran`).
* What Dynamo could not convert, and where it broke a frame, is heard (:mod:`rk._compile.heard`).
* What eager operators left behind is seen in the autograd graph of the call's results: a plan's graphs are
  one node each there, and every other new node that saves tensors is an operator that no plan knows of.

The option ``on_unplanned`` says what follows. Where all is planned, and after that has been seen, a call
costs a few microseconds more.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo import external_utils, trace_rules
from torch._dynamo.eval_frame import OptimizeContext, innermost_backend

from rk._compile import heard
from rk._plan.options import Options
from rk._run import device_scope, group
from rk.errors import CompileError, OptionError

LEAST = 64
"""Bytes. Smaller results of eager operators beside graphs, such as a factor of the loss, are not told."""
COMPILED = "CompiledFunctionBackward"
"""The node of autograd that a compiled graph is."""
_RUNNERS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class _Here(threading.local):
    ran = 0
    """Graphs with a plan that this thread has run."""
    original: Any = None
    """What was compiled, of the call that runs."""
    collected: list[str] | None = None
    """Where findings go while :func:`collected` lasts."""


_here = _Here()


def ran() -> None:
    """A graph with a plan runs now."""
    _here.ran += 1


def module() -> nn.Module | None:
    """The module whose compiled call runs now, if it is one that was compiled."""
    fn = _here.original
    for one in (fn, getattr(fn, "__self__", None), getattr(fn, "__wrapped__", None)):
        if isinstance(one, nn.Module):
            return one
    return None


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Findings are gathered in a list, and neither raised nor warned of, while this context lasts."""
    before, _here.collected = _here.collected, []
    try:
        yield _here.collected
    finally:
        _here.collected = before


class Watch:
    """The calls of one compiled function."""

    def __init__(self, run: Callable[..., Any], given: Any, original: Any) -> None:
        """``given`` are the options as the user wrote them, ``original`` is what was compiled."""
        self.run, self.given, self.original = run, given, original
        self._is_settled = self._is_told = False
        self._onlookers: list[str] = []
        with contextlib.suppress(OptionError):
            # Wrong options are told when the function is called, as PyTorch does.
            options = Options.parse(given)
            group.waits(self, options)
            device_scope.waits(self, options)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function, and looks at what happened if it may be news."""
        group.runs(self)
        before, since = _here.ran, torch.autograd._get_sequence_nr()
        mark = heard.mark()
        outer, _here.original = _here.original, self.original
        try:
            result = self.run(*args, **kwargs)
        except (RuntimeError, MemoryError) as error:
            # Whoever runs out of memory here should know why no budget helped.
            for one in heard.since(mark):
                if one.is_given_up and one.trains and not one.is_of_backend:
                    _add_note(error, f"rk: before this, {one}; what runs then is not planned")
            raise
        finally:
            _here.original = outer
        governed, news = _here.ran - before, heard.any_since(mark)
        if self._is_settled and governed and not news:
            return result
        self._look(result, governed, heard.since(mark), since)
        self._is_settled = True
        return result

    def _look(self, result: Any, governed: int, news: list[heard.Event], since: int) -> None:
        eager = _eager_nodes(result, since)
        if governed:
            eager = {name: sizes for name, sizes in eager.items() if max(sizes) >= LEAST}
        given_up = any(one.is_given_up and one.trains for one in news)
        hidden = given_up and (not governed or not _differentiable(result))
        later = isinstance(result, _RUNNERS) and not governed
        if not (eager or later or hidden):
            return
        options = Options.parse(self.given)
        is_error = _follows(options, bool(governed)) == "error"
        if self._is_told and not news and not is_error:
            return
        self._is_told = True
        self._onlookers = heard.onlookers() or self._onlookers
        what = "only a part of this call" if governed else "nothing in this call"
        reasons = news or ([] if self._onlookers else heard.earlier(self.original))
        tell(
            options, what, _told(reasons, eager, later, self.original, self._onlookers), partly=bool(governed)
        )


def _add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        # Python 3.10 has no notes.
        error.args = ("\n".join([*map(str, error.args), note]),)


def _follows(options: Options, partly: bool) -> str:
    """What follows: ``error``, ``warn`` or ``ignore``."""
    if options.on_unplanned != "auto":
        return options.on_unplanned
    binds = options.budget not in ("auto", "100%")
    return "error" if binds and not partly else "warn"


def tell(options: Options, what: str, why: str, partly: bool = False) -> None:
    """Tells the user, as the option ``on_unplanned`` says, that the budget governs only ``what``."""
    text = f"the budget of {options.budget} governs {what}: {why}"
    follows = _follows(options, partly)
    if _here.collected is not None:
        _here.collected.append(text)
    elif follows == "error":
        raise CompileError(f"{text}. With on_unplanned='warn' this is a warning")
    elif follows == "warn":
        warnings.warn(f"rk: {text}. With on_unplanned='error' this is an error", stacklevel=_users_level())


def _users_level() -> int:
    """How far up the first frame is that belongs neither to PyTorch nor to rk."""
    inside = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        level, frame = level + 1, frame.f_back
    return level


def _told(
    reasons: list[heard.Event],
    eager: dict[str, list[int]],
    later: bool,
    original: Any,
    onlookers: list[str],
) -> str:
    parts = [str(one) for one in reasons[:3]]
    if len(reasons) > 3:
        parts.append(f"and so on, {len(reasons)} places in all")
    stance = torch._dynamo.eval_frame._stance.stance
    if stance != "default":
        parts.append(f"torch.compiler.set_stance({stance!r}) is in force")
    parts += heard.excluded(original)
    if onlookers:
        parts.append(
            f"Dynamo compiles nothing under {onlookers[0]}, a TorchDispatchMode, and leaves out for good "
            "what was called first under one; torch._dynamo.reset() lets it try again"
        )
    if later:
        parts.append("it returns a generator, which runs without torch.compile: compile what it calls")
    if not parts:
        parts.append("Dynamo handed no graph to rk (TORCH_LOGS=graph_breaks,recompiles says more)")
    if eager:
        names = [name if len(sizes) == 1 else f"{name} ({len(sizes)}x)" for name, sizes in eager.items()]
        more = ", ..." if len(names) > 4 else ""
        parts.append(
            f"PyTorch ran by itself, and saves values for the backward pass of {', '.join(names[:4])}{more}"
        )
    return "; ".join(parts)


def _eager_nodes(result: Any, since: int) -> dict[str, list[int]]:
    """The operators that have left nodes with saved tensors in the autograd graph since then, each with the
    bytes of its results.
    """
    waiting = [one.grad_fn for one in _tensors(result) if one.grad_fn is not None]
    seen, found = set(waiting), {}
    while waiting:
        node = waiting.pop()
        # A graph that the caller made before is the caller's; gradients are accumulated by nodes without end.
        if not since <= node._sequence_nr() < 2**63:
            continue
        if type(node).__name__ != COMPILED and _saves(node):
            name = node.name().rpartition("::")[2].removesuffix("0").removesuffix("Backward")
            found.setdefault(name, []).append(_bytes(node))
        for source, _ in node.next_functions:
            if source is not None and source not in seen:
                seen.add(source)
                waiting.append(source)
    return found


def _saves(node: Any) -> bool:
    """Whether a node keeps tensors; they are not looked at, because that may run hooks."""
    if hasattr(node, "_raw_saved_tensors"):
        return len(node._raw_saved_tensors) > 0
    return _kind_saves(type(node))


@functools.cache
def _kind_saves(kind: type) -> bool:
    # Functions written in C++, such as a scripted module, do not show what they keep.
    return kind.__name__ == "CppFunction" or any(name.startswith("_raw_saved_") for name in dir(kind))


def _bytes(node: Any) -> int:
    results = node._input_metadata
    return max((math.prod(map(int, one.shape)) * one.dtype.itemsize for one in results), default=0)


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in what a model returns: in containers, and in objects such as transformers' outputs."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 6:
        if isinstance(value, dict):
            parts = list(value.values())
        elif isinstance(value, (list, tuple, set)):
            parts = list(value)
        else:
            parts = list(getattr(value, "__dict__", {}).values()) if not inspect.isclass(value) else []
        for part in parts:
            yield from _tensors(part, depth + 1)


def _differentiable(result: Any) -> bool:
    return any(one.requires_grad for one in _tensors(result))


def watched(run: Callable[..., Any], given: Any, original: Any) -> Callable[..., Any]:
    """``run`` with its calls watched; to Dynamo and to the user it is the same function."""
    watch = Watch(run, given, original)

    @functools.wraps(run)
    def rk_watched(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return run(*args, **kwargs)
        return watch(args, kwargs)

    # Dynamo runs the frame as it is, and follows the attributes to what was compiled.
    heard.skip_code(rk_watched.__code__)
    rk_watched._torchdynamo_wrapper_id = id(rk_watched)
    return rk_watched


def _entered(fn: Any) -> Any:
    """What Dynamo has to be given so that it enters a module of torch.nn on which ``Module.compile`` was
    called: it passes over the files of torch.nn, unless something outside of them calls. ``torch.compile`` of
    the module itself takes care of that.
    """
    owner = getattr(fn, "__self__", None)
    is_call = isinstance(owner, nn.Module) and getattr(fn, "__func__", None) is nn.Module._call_impl
    return external_utils.wrap_inline(fn) if is_call and trace_rules.check(owner.forward) else fn


def install(backend: Callable[..., Any]) -> None:
    """From now on, whatever is compiled for this backend is watched."""

    def watching(wrap: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wrap)
        def wrapped(self: OptimizeContext, fn: Any) -> Any:
            ours = innermost_backend(self.callback) if callable(self.callback) else None
            if getattr(ours, "compiler_fn", ours) is not backend:
                return wrap(self, fn)
            compiled = wrap(self, _entered(fn))
            given = getattr(ours, "kwargs", {}).get("options")
            return watched(compiled, given, fn) if inspect.isfunction(compiled) else compiled

        return wrapped

    OptimizeContext.__call__ = watching(OptimizeContext.__call__)
    heard.install()
