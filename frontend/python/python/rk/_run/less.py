"""Instances that go on with less than they were begun with: they become checkpoints, and let go of the rest.

What a checkpoint reads and the plan at hand does not save are arguments. Where graphs share a budget, they
are put aside before forward runs, copies included (law S9), and a choice counts them. A graph alone has no
room for copies, and should need none of this: its arguments are remembered without being held, and what is
missing is taken from them when it turns out that another forward half comes first, unless the caller has let
go of them or changed them by then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import TensorWeakRef

from rk._graph import loans

if TYPE_CHECKING:
    from rk._run.variants import Code, Instance, Key

    Spared = dict[Key, torch.Tensor]
Free = Callable[[], None]


class Way:
    """How calls that run one plan become checkpoints."""

    def __init__(self, code: Code, least: Code, base: Code) -> None:
        """``code`` are the passes of the plan, ``least`` the checkpoint's, ``base`` what is compiled."""
        missing = [key for key in least.keys if key not in code.places]
        self.states = [key for key in missing if key[0] == "state" and key[1] in code.remembered]
        """The generator states that a checkpoint starts from, and the plan does not."""
        missing = [key for key in missing if key not in self.states]
        self.is_open = all(key[0] == "input" or key in least.copies for key in missing)
        """Whether all else that a checkpoint reads, and the plan does not save, are arguments."""
        self.missing = [(key, least.copies.get(key, key[1])) for key in missing] if self.is_open else []
        """These, with the place of the argument."""
        self.copies, self.checked, self.reads = least.copies, least.checked, least.places
        self.viewed = least.viewed
        given_up = code.own - least.own
        self.given_up = [place for place, key in enumerate(base.keys) if key in given_up]
        """The slots of what a checkpoint does not hold."""

    def spared(self, args: Sequence[Any] | dict[int, Any]) -> Spared:
        """What is missing, of the arguments; with copies where copies are read (law S9)."""
        return {key: self._held(key, args[place]) for key, place in self.missing}

    def _held(self, key: Key, argument: torch.Tensor) -> torch.Tensor:
        if key in self.copies:
            return argument.clone()
        return argument.detach() if key in self.viewed else argument


def prepared(instance: Instance, code: Code, args: Sequence[Any]) -> Callable[[list[Any]], Free] | None:
    """Before an instance runs ``code``: what makes of its saved tensors the function that lets go of them;
    None if it cannot let go of anything.
    """
    if instance.variant.schedule.moves:
        # A copy may be under way, and needs both of its ends.
        return None
    if not instance.group.shared:
        remembered = [TensorWeakRef(one) if isinstance(one, torch.Tensor) else None for one in args]
        return functools.partial(_alone, instance, code, remembered, list(map(_state, args)))
    if instance.variant is instance.owner.checkpoint:
        return None
    way = _way_of(instance.owner, code)
    return functools.partial(_together, instance, way, way.spared(args)) if way.is_open else None


def _way_of(owner: Any, code: Code) -> Way:
    found = owner.ways.get(code)
    if found is None:
        found = owner.ways[code] = Way(code, owner.checkpoint.code, owner.base.code)
    return found


def _together(instance: Instance, way: Way, spared: Spared, saved: list[torch.Tensor]) -> Free:
    versions = {key: loans.version(one) for key, one in spared.items()}
    return functools.partial(_become_checkpoint, instance, way, spared, versions, saved)


def _alone(
    instance: Instance,
    code: Code,
    remembered: Sequence[TensorWeakRef | None],
    states: list[tuple[int, int]],
    saved: list[torch.Tensor],
) -> Free:
    def free() -> None:
        way = _way_of(instance.owner, code)
        known = {place: remembered[place] for _, place in way.missing}
        args = {place: None if one is None else one() for place, one in known.items()}
        if not way.is_open or any(one is None or _state(one) != states[at] for at, one in args.items()):
            instance.free = None
            return
        # What is given up makes room for copies.
        _give_up(way, saved)
        spared = way.spared(args)
        now = {key: loans.version(one) for key, one in spared.items()}
        _become_checkpoint(instance, way, spared, now, saved)

    return free


def _give_up(way: Way, saved: list[torch.Tensor]) -> None:
    for place in way.given_up:
        saved[place].untyped_storage().resize_(0)


def _become_checkpoint(
    instance: Instance, way: Way, spared: Spared, versions: dict[Key, int], saved: list[torch.Tensor]
) -> None:
    _give_up(way, saved)
    states = {key: instance.remembered[key[1]].get_state() for key in way.states}
    beside = {**spared, **states, **(instance.beside or {})}
    instance.beside = {key: one for key, one in beside.items() if key in way.reads}
    known = instance.versions | {key: versions[key] for key in spared if key in way.checked}
    instance.versions = {key: one for key, one in known.items() if key in instance.beside}
    instance.variant, instance.free, instance.remembered = instance.owner.checkpoint, None, {}


def _state(argument: Any) -> tuple[int, int]:
    """What changes when an argument is written to, or given other memory."""
    if not isinstance(argument, torch.Tensor) or argument.layout is not torch.strided:
        return 0, 0
    return loans.version(argument), argument.untyped_storage()._cdata
