"""The objects of this process that are of some class, with those that ``gc.freeze`` has put aside.

Servers freeze what a process begins with, a model and its optimizer among it, and the collector's lists do
not show it from then on. It is still reachable: from what is not frozen, from modules, and from what runs.
That walk takes about a second, and is made once for each freeze: an object of our own that is missing in the
lists was frozen with the others.
"""

from __future__ import annotations

import gc
import inspect
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

Classes = tuple[type, ...]
_NOBODY_ELSE = 3
"""References to what the frame, a variable and the call that counts hold."""
_LEAVES = {str, bytes, int, float, bool, complex, type(None), types.CodeType, types.BuiltinFunctionType}


class _Mark:
    """Young until somebody freezes."""


_FROZEN: dict[Classes, tuple[_Mark, list[weakref.ref[Any]]]] = {}
"""By classes, what was frozen when somebody last asked for them."""


def objects(classes: Classes) -> list[Any]:
    """All that live. What is frozen and takes no weak reference (a tuple) is left out."""
    listed = gc.get_objects()
    # Lazy proxies among the objects must not be asked for their class. Hundreds of thousands of objects are
    # of a few thousand types.
    wanted = {kind for kind in set(map(type, listed)) if issubclass(kind, classes)}
    found = [one for one in listed if type(one) in wanted]
    if gc.get_freeze_count():
        known = {id(one) for one in found}
        frozen = (reference() for reference in _frozen(classes, listed))
        found += [one for one in frozen if one is not None and id(one) not in known]
    return found


def _frozen(classes: Classes, listed: Sequence[Any]) -> list[weakref.ref[Any]]:
    mark, references = _FROZEN.get(classes, (None, []))
    if mark is None or id(mark) not in map(id, listed):
        mine = {id(one) for one in listed}
        reached = (one for one in _reached(listed) if id(one) not in mine)
        found = [one for one in reached if issubclass(type(one), classes)]
        references = [weakref.ref(one) for one in found if type(one).__weakrefoffset__]
        _FROZEN[classes] = _Mark(), references
    return references


def _reached(listed: Sequence[Any]) -> Iterator[Any]:
    """All that can be reached."""
    front = [*listed, sys.modules, *_running()]
    seen: dict[int, Any] = {}
    while front:
        new = {id(one): one for one in front if type(one) not in _LEAVES and id(one) not in seen}
        seen.update(new)
        yield from new.values()
        front = gc.get_referents(*new.values())
    # It has come across itself.
    seen.clear()


def _running() -> Iterator[Any]:
    """The variables of all functions that are under way: their frames show them to nobody else."""
    for frame in sys._current_frames().values():
        while frame is not None:
            variables = frame.f_locals
            yield from list(variables.values())
            is_copy = type(variables) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
            if is_copy and sys.getrefcount(variables) <= _NOBODY_ELSE:
                # Up to Python 3.12 the frame keeps the copy, which would keep what the function lets go of.
                variables.clear()
            del variables
            frame = frame.f_back
