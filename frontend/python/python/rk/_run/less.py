"""Instances that go on with less than they were begun with: they become checkpoints, and let go of the rest.

What a checkpoint reads and the plan at hand does not save are arguments. Those that are lent (law S9) are
copied before forward runs. The others are held where graphs share a budget, and a choice counts both. A graph
alone should need none of this: its arguments are remembered without being held, and what is missing is taken
from them when it turns out that another forward half comes first, unless the caller has let go of them or
changed them by then. Its copies wait in memory of the host until room has been made for them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from ctypes import c_char
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.weak import TensorWeakRef

from rk._graph import loans

if TYPE_CHECKING:
    from rk._run.variants import Code, Instance, Key

    Spared = dict[Key, torch.Tensor]


LITTLE = 100
"""Which part of its budget a graph alone may take in memory of the host for copies."""


class Lent(NamedTuple):
    """An argument that a second run may only read a copy of (law S9)."""

    key: Key
    """The copy, as a plan saves it."""
    place: int
    """Of the argument."""
    like: torch.Tensor
    """A fake tensor like it, whose elements lie densely in some order."""

    @classmethod
    def of(cls, key: Key, place: int, like: torch.Tensor) -> Lent | None:
        """None if its memory does not have its values as they are."""
        return None if like.is_conj() or like.is_neg() else cls(key, place, like)


class Copies:
    """Copies of small arguments."""

    def __init__(self, lent: Iterable[Lent]) -> None:
        """Of which arguments."""
        self._lent = list(lent)
        self._arrays = [(one.place, one.like.nbytes, c_char * one.like.nbytes) for one in self._lent]
        self._are_on_host = all(one.like.device.type == "cpu" for one in self._lent)

    @property
    def keys(self) -> set[Key]:
        """What is copied, as a plan saves it."""
        return {one.key for one in self._lent}

    def taken(self, args: Sequence[Any], *, aside: bool) -> list[Any]:
        """Each copy: as bytes, if the device is the host. Those of another device go to the host if they are
        to be ``aside``, and else beside their arguments.
        """
        if self._are_on_host:
            return [
                # PyTorch's tensors of zeros without memory have no address.
                array.from_address(address).raw if (address := args[place].data_ptr()) else bytes(size)
                for place, size, array in self._arrays
            ]
        copied = _to_host if aside else torch.clone
        return [copied(args[one.place]) for one in self._lent]

    def apart(self, taken: Sequence[Any], wanted: Container[Key]) -> Spared:
        """Those of the copies that are wanted, on the device, by their keys."""
        pairs = zip(self._lent, taken, strict=True)
        return {one.key: _on_device(line, one.like) for one, line in pairs if one.key in wanted}


def _to_host(argument: torch.Tensor) -> torch.Tensor:
    # Whoever reads it does so on the device, in the order of its stream.
    line = torch.empty(argument.numel(), dtype=argument.dtype, device="cpu", pin_memory=True)
    return line.copy_(argument.as_strided(line.shape, (1,)), non_blocking=True)


def _on_device(line: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(line, torch.Tensor) and line.device.type != "cpu":
        return line
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    if not like.numel():
        return made
    if isinstance(line, bytes):
        line = torch.frombuffer(bytearray(line), dtype=like.dtype)
    return made.copy_(line.as_strided(like.shape, like.stride()), non_blocking=True)


class Way:
    """How calls that run one plan become checkpoints."""

    def __init__(self, code: Code, least: Code, base: Code, lent: Sequence[Lent]) -> None:
        """``code`` are the passes of the plan, ``least`` the checkpoint's, ``base`` what is compiled, and
        ``lent`` is what may be copied of the arguments of the class.
        """
        missing = [key for key in least.keys if key not in code.places]
        self.states = [key for key in missing if key[0] == "state" and key[1] in code.remembered]
        """The generator states that a checkpoint starts from, and the plan does not."""
        copied = [one for one in lent if one.key in missing]
        self.copies = Copies(copied)
        """Those that it reads, and the plan does not save."""
        missing = [key for key in missing if key not in {*self.states, *(one.key for one in copied)}]
        self.is_open = all(kind == "input" for kind, _ in missing)
        """Whether all else that a checkpoint reads, and the plan does not save, are arguments."""
        self.missing = missing if self.is_open else []
        """These."""
        self.checked, self.reads, self.viewed = least.checked, least.places, least.viewed
        given_up = code.own - least.own
        self.given_up = [place for place, key in enumerate(base.keys) if key in given_up]
        """The slots of what a checkpoint does not hold."""

    def arguments(self, args: Sequence[Any] | dict[int, Any]) -> Spared:
        """What is missing and no copy."""
        found = {key: args[key[1]] for key in self.missing}
        return {key: one.detach() if key in self.viewed else one for key, one in found.items()}


class Unsaved:
    """What calls that run one plan do not save, and a checkpoint may read."""

    def __init__(self, code: Code, lent: Sequence[Lent], readable: Sequence[int], budget: int) -> None:
        """``code`` are the passes of the plan, ``lent`` is what may be copied of the arguments of its class,
        and ``readable`` are the places of those that a second run may read itself.
        """
        copied = [one for one in lent if one.key not in code.places]
        # What nobody counts must be little: a mask may be small only beside what is made of it.
        is_little = sum(one.like.nbytes for one in copied) <= budget // LITTLE
        self.copies = Copies(copied if is_little else ())
        self.readable = [place for place in readable if ("input", place) not in code.places]


def spare(instance: Instance, code: Code, args: Sequence[Any]) -> Spare | None:
    """Before an instance runs ``code``: what it takes to become a checkpoint; None if it cannot."""
    if instance.variant.schedule.moves:
        # A copy may be under way, and needs both of its ends.
        return None
    owner = instance.owner
    if not instance.group.shared:
        unsaved = owner.unsaved.get(code)
        if unsaved is None:
            unsaved = owner.unsaved[code] = Unsaved(
                code, owner.lent, owner.readable, instance.variant.schedule.budget
            )
        return Remembered(unsaved, code, args)
    if instance.variant is owner.checkpoint:
        return None
    way = owner.ways.get(code) or _way_of(owner, code)
    return Held(way, args) if way.is_open else None


class Held:
    """The arguments that an instance needs to become a checkpoint, and the copies of others."""

    __slots__ = "_arguments", "_copies", "_versions", "_way"

    def __init__(self, way: Way, args: Sequence[Any]) -> None:
        """``args`` are those that it is called with."""
        self._way, self._copies = way, way.copies.taken(args, aside=False)
        self._arguments = way.arguments(args) if way.missing else {}
        self._versions: dict[Key, int] = {}

    def begins(self) -> None:
        """Forward is over: from here on nobody may write to the arguments."""
        if self._arguments:
            self._versions = _versions(self._arguments)

    def give_up(self, instance: Instance, saved: list[torch.Tensor]) -> None:
        """The instance becomes a checkpoint, and lets go of what it has ``saved`` beyond that."""
        way = self._way
        _give_up(way, saved)
        copies = way.copies.apart(self._copies, way.reads)
        _become_checkpoint(instance, way, self._arguments, self._versions, copies)


class Remembered:
    """The arguments that an instance may need to become a checkpoint, as far as the caller still has them as
    they were, and the copies of others.
    """

    __slots__ = "_arguments", "_code", "_copies", "_unsaved"

    def __init__(self, unsaved: Unsaved, code: Code, args: Sequence[Any]) -> None:
        """``args`` are those that it is called with."""
        self._unsaved, self._code, self._copies = unsaved, code, unsaved.copies.taken(args, aside=True)
        self._arguments = {place: _Argument.of(args[place]) for place in unsaved.readable}

    def begins(self) -> None:
        """Forward is over. If it has written to an argument, that is not as it was."""

    def give_up(self, instance: Instance, saved: list[torch.Tensor]) -> None:
        """See :meth:`Held.give_up`. If the caller has not what it takes, nothing happens."""
        way = _way_of(instance.owner, self._code)
        args = {place: self._arguments[place].found() for _, place in way.missing}
        if not way.is_open or any(one is None for one in args.values()):
            return
        if not way.copies.keys <= self._unsaved.copies.keys:
            return
        _give_up(way, saved)
        # What is given up has made room for copies.
        copies = self._unsaved.copies.apart(self._copies, way.reads)
        arguments = way.arguments(args)
        _become_checkpoint(instance, way, arguments, _versions(arguments), copies)


Spare = Held | Remembered


class _Argument(NamedTuple):
    """An argument that is not held."""

    argument: TensorWeakRef
    version: int
    storage: int

    @classmethod
    def of(cls, argument: torch.Tensor) -> _Argument:
        is_strided = argument.layout is torch.strided
        storage = argument.untyped_storage()._cdata if is_strided else 0
        return cls(TensorWeakRef(argument), loans.version(argument), storage)

    def found(self) -> torch.Tensor | None:
        """The argument, unless it is gone, has been written to, or has been given other memory."""
        there = self.argument()
        return there if there is not None and _Argument.of(there)[1:] == self[1:] else None


def _way_of(owner: Any, code: Code) -> Way:
    found = owner.ways.get(code)
    if found is None:
        found = owner.ways[code] = Way(code, owner.checkpoint.code, owner.base.code, owner.lent)
    return found


def _give_up(way: Way, saved: list[torch.Tensor]) -> None:
    for place in way.given_up:
        saved[place].untyped_storage().resize_(0)


def _become_checkpoint(
    instance: Instance, way: Way, arguments: Spared, versions: dict[Key, int], copies: Spared
) -> None:
    states = {key: instance.remembered[key[1]].get_state() for key in way.states}
    beside = {**arguments, **copies, **states, **(instance.beside or {})}
    instance.beside = {key: one for key, one in beside.items() if key in way.reads}
    versions = {**versions, **_versions(copies)}
    known = instance.versions | {key: one for key, one in versions.items() if key in way.checked}
    instance.versions = {key: one for key, one in known.items() if key in instance.beside}
    instance.variant, instance.remembered = instance.owner.checkpoint, {}


def _versions(tensors: Spared) -> dict[Key, int]:
    return {key: loans.version(one) for key, one in tensors.items()}
