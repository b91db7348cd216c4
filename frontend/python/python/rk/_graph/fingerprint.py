"""A joint graph as AOTAutograd made it, told in text: what its plan is found on disk by.

Told is all that the plan depends on: operators and their arguments, sizes, strides and shared storages of
what comes in, passes, which inputs are state, what the user wants saved, and how rk reads a graph. Sizes of
results follow from these, but for operators that are not PyTorch's own.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch
from torch import fx

from rk._graph import joint, loans
from rk._graph.repetition import manner_of


class Fingerprint:
    """Hashes of a graph."""

    def __init__(self, gm: fx.GraphModule, handed_out: int, static: Set[fx.Node], replays: bool) -> None:
        """Of ``gm`` as it is now. So many of its results are handed over by the forward pass, ``static`` are
        the placeholders of state; ``replays`` is that of :class:`rk._graph.step.Step`.
        """
        told = [f"{handed_out} {replays} {torch.are_deterministic_algorithms_enabled()} {_reader()}"]
        self._told = "".join([*told, *_told(gm, static)])

    @functools.cached_property
    def whole(self) -> str:
        """A hash of all that the plan depends on, besides the costs."""
        return hashlib.sha256(self._told.encode()).hexdigest()

    @functools.cached_property
    def kind(self) -> str:
        """The same on all devices of a kind: without their numbers."""
        told = re.sub(r"(type='\w+'), index=\d+", r"\1", self._told)
        return hashlib.sha256(told.encode()).hexdigest()


@functools.cache
def _reader() -> str:
    """What reads graphs: another version may rewrite them in other ways."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _told(gm: fx.GraphModule, static: Set[fx.Node]) -> list[str]:
    names: dict[int, tuple[str, bool]] = {}
    storages: dict[int, int] = {}
    regions: dict[Any, int] = {}
    told = []
    for node in gm.graph.nodes:
        op, target, meta = node.op, node.target, node.meta
        unchecked = meta.get(loans.UNCHECKED, False)
        if op == "call_function":
            name, is_known = names.get(id(target)) or names.setdefault(id(target), _named(target))
            marks = meta.get("partitioner_tag"), meta.get("recompute")
            # Printing a dictionary that is empty takes as long as all else of a line.
            told.append(f"\n{node.name} {node.args!r} {unchecked} {name} {node.kwargs or ''} {marks}")
            if "recompute" in meta:
                told.append(f" {regions.setdefault(loans.region(node), len(regions))}")
            if not is_known:
                told.append(f" {_sizes(meta.get('val'))} {manner_of(node)}")
            continue
        told.append(f"\n{node.name} {node.args!r} {unchecked}")
        if op == "placeholder":
            told.append(repr([target, node in static, *_shared(joint.tensor_of(node), storages)]))
        elif op == "get_attr":
            value = getattr(gm, target, None)
            is_code = isinstance(value, fx.GraphModule)
            told.append(repr(value.code if is_code else _shared(value, storages)))
    return told


def _named(target: Any) -> tuple[str, bool]:
    """What an operator is told by, and whether it is PyTorch's own: the schema of another one may change."""
    known = target is operator.getitem or getattr(target, "namespace", None) in ("aten", "prims")
    return str(target if known else getattr(target, "_schema", target)), known


def _sizes(value: Any) -> Any:
    """Tensors by their sizes; anything else, such as a number that was computed, by its kind."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else value.layout
        return value.dtype, tuple(value.shape), strides
    return [_sizes(one) for one in value] if isinstance(value, (tuple, list)) else type(value).__name__


def _shared(value: Any, storages: dict[int, int]) -> list[Any]:
    """What comes from outside: also where it is, and with which other input it shares its storage."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return [_sizes(value)]
    storage = value.untyped_storage()
    place = storages.setdefault(storage._cdata, len(storages))
    return [_sizes(value), value.device, value.storage_offset(), place, storage.nbytes()]
