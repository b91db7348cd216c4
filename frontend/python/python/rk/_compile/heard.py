"""What Dynamo says, to those who ask, of frames that it could not convert or had to break.

Dynamo catches its own failures, and lets PyTorch run the frame without a word at the level of logging that
people use. So the conversion of frames itself is listened to.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._dynamo.convert_frame import ConvertFrameAssert
from torch._dynamo.decorators import skip_code
from torch._dynamo.utils import graph_break_reasons
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

__all__ = ["Event", "any_since", "earlier", "excluded", "install", "mark", "onlookers", "since", "skip_code"]


@dataclasses.dataclass(frozen=True)
class Event:
    """A frame that was given up, or broken."""

    frame: str
    """The name of the function, and where it is; empty for a break, whose place says it."""
    place: str
    """The line at which it happened."""
    reason: str
    is_given_up: bool
    trains: bool = True
    """Whether the frame had something that asks for a gradient, and gradients were wanted."""
    is_of_backend: bool = False
    """Whether the failure is the backend's own."""

    def __str__(self) -> str:
        """One clause of a sentence."""
        where = f" at {self.place}" if self.place else ""
        if self.is_given_up:
            return f"Dynamo gave up {self.frame}{where}: {self.reason}"
        return f"Dynamo broke the graph{where}: {self.reason}"


class _Here(threading.local):
    def __init__(self) -> None:
        self.given_up: list[Event] = []


_here = _Here()
_EARLIER: weakref.WeakKeyDictionary[types.CodeType, Event] = weakref.WeakKeyDictionary()
"""Frames that were given up: Dynamo runs them as they are from then on, and says nothing any more."""


def mark() -> tuple[int, int]:
    """A moment, for :func:`since`."""
    return len(_here.given_up), len(graph_break_reasons)


def any_since(moment: tuple[int, int]) -> bool:
    """Whether anything has been heard since that moment."""
    return moment != (len(_here.given_up), len(graph_break_reasons))


def since(moment: tuple[int, int]) -> list[Event]:
    """What has been heard since that moment; of a place, what was heard first, that it was given up before
    that it was broken.
    """
    given_up, broken = moment
    events = [*_here.given_up[given_up:], *map(_break, graph_break_reasons[broken:])]
    return list({one.place or one.frame: one for one in reversed(events)}.values())[::-1]


def _break(about: Any) -> Event:
    stack = about.user_stack
    place = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
    return Event("", place, _summary(about.reason), is_given_up=False)


def earlier(original: Any) -> list[Event]:
    """What was heard of a function, or of a module and its parts, in earlier calls."""
    return list(dict.fromkeys(_EARLIER[code] for code in _codes(original) if code in _EARLIER))


def excluded(original: Any) -> list[str]:
    """Which parts of a model Dynamo may not look into, in words."""
    names = []
    for module in _modules(original):
        if getattr(_forward(module), "_torchdynamo_disable", False):
            names.append(f"{type(module).__qualname__}.forward is excluded by torch.compiler.disable")
    return list(dict.fromkeys(names))


def onlookers() -> list[str]:
    """The modes that are on, and keep Dynamo from compiling anything, by name."""
    kinds = [type(one) for one in _get_current_dispatch_mode_stack() if not one.ignore_compile_internals()]
    return [
        "rk.memory_budget" if one.__module__.startswith("rk.") else one.__name__.lstrip("_") for one in kinds
    ]


def _modules(original: Any) -> Iterator[nn.Module]:
    owner = original if isinstance(original, nn.Module) else getattr(original, "__self__", None)
    if isinstance(owner, nn.Module):
        yield from owner.modules()


def _forward(module: nn.Module) -> Any:
    # A scripted module makes its own when it is asked for one.
    return inspect.getattr_static(type(module), "forward", None)


def _codes(original: Any) -> Iterator[types.CodeType]:
    for function in (original, *map(_forward, _modules(original))):
        code = getattr(function, "__code__", None)
        if isinstance(code, types.CodeType):
            yield code


def _summary(text: str) -> str:
    """The first lines of Dynamo's account: what, why, and what helps."""
    lines = [line.strip().rstrip(".") for line in str(text).splitlines()]
    what = next((line for line in lines if line), "no reason was given")
    more = [line for line in lines if line.startswith(("Explanation:", "Hint:"))]
    loop = " (inside of a loop)" if any("graph break in loop" in line.lower() for line in lines) else ""
    return what + loop + "".join(f". {line}" for line in more[:2])


def _heard(frame: Any, error: Exception) -> None:
    code = frame.f_code
    stack = getattr(error, "real_stack", None) or ()
    inner = getattr(error, "inner_exception", None)
    event = Event(
        f"{getattr(code, 'co_qualname', code.co_name)} ({code.co_filename}:{code.co_firstlineno})",
        f"{stack[-1].filename}:{stack[-1].lineno}" if stack else "",
        _summary(str(error)) if inner is None else f"{type(inner).__name__}: {inner}",
        is_given_up=True,
        trains=torch.is_grad_enabled() and any(map(_trains, _values(frame))),
        is_of_backend=inner is not None,
    )
    _here.given_up.append(event)
    _EARLIER[code] = event


def _values(frame: Any) -> Iterator[Any]:
    yield from frame.f_locals.values()
    for cell in frame.closure or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def _trains(value: Any, depth: int = 0) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    if isinstance(value, nn.Module):
        return any(one.requires_grad for one in value.parameters())
    if depth < 3 and isinstance(value, dict):
        return any(_trains(one, depth + 1) for one in value.values())
    return depth < 3 and isinstance(value, (list, tuple)) and any(_trains(one, depth + 1) for one in value)


def install() -> None:
    """Listens from now on."""

    def listening(convert: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(convert)
        def listened(self: ConvertFrameAssert, frame: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return convert(self, frame, *args, **kwargs)
            except Exception as error:
                _heard(frame, error)
                raise

        return listened

    ConvertFrameAssert.__call__ = listening(ConvertFrameAssert.__call__)
