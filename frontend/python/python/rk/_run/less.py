"""Instances that go on with less than they were begun with: they become checkpoints, and let go of the rest.

What a checkpoint reads and the plan at hand does not save are arguments. Where graphs share a budget, they
are put aside before forward runs, copies included (law S9), and a choice counts them. A graph alone has no
room for copies, and should need none of this: its arguments are remembered, and what is missing is taken from
them when it turns out that another forward half comes first, unless the caller has changed them by then.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from rk._run.variants import Code, Instance, Key

    Spared = dict[Key, torch.Tensor]
Free = Callable[[], None]


def prepared(instance: Instance, code: Code, args: Sequence[Any]) -> Callable[[list[Any]], Free] | None:
    """Before an instance runs ``code``: what makes of its saved tensors the function that lets go of them;
    None if it cannot let go of anything.
    """
    if not instance.group.shared:
        return functools.partial(_alone, instance, code, tuple(args), list(map(_version, args)))
    least = instance.owner.checkpoint
    if instance.variant is least:
        return None
    spared = _read_besides(least.code, code, args)
    return None if spared is None else functools.partial(_together, instance, code, _own(spared, least.code))


def _together(instance: Instance, code: Code, spared: Spared, saved: list[torch.Tensor]) -> Free:
    given_up = code.own - instance.owner.checkpoint.code.own
    slots = zip(instance.owner.base.code.keys, saved, strict=True)
    storages = [weakref.ref(one.untyped_storage()) for key, one in slots if key in given_up]
    versions = {key: one._version for key, one in spared.items()}

    def free() -> None:
        for storage in storages:
            if (found := storage()) is not None:
                found.resize_(0)
        _become_checkpoint(instance, spared, versions)

    return free


def _alone(
    instance: Instance, code: Code, args: Sequence[Any], versions: list[int], saved: list[torch.Tensor]
) -> Free:
    def free() -> None:
        least = instance.owner.checkpoint.code
        now = zip(args, versions, strict=True)
        unchanged = [one if _version(one) == version else None for one, version in now]
        spared = _read_besides(least, code, unchanged)
        if spared is None:
            instance.free = None
            return
        for key, one in zip(code.keys, saved, strict=True):
            if key in code.own and key not in least.own:
                one.untyped_storage().resize_(0)
        spared = _own(spared, least)
        _become_checkpoint(instance, spared, {key: one._version for key, one in spared.items()})

    return free


def _read_besides(least: Code, code: Code, args: Sequence[Any]) -> Spared | None:
    """The arguments that a checkpoint reads, itself or copies, and ``code`` does not save; None if it reads
    something else, or one that is None.
    """
    missing = [key for key in least.keys if key not in code.places]
    if any(key[0] != "input" and key not in least.copies for key in missing):
        return None
    found = {key: args[least.copies.get(key, key[1])] for key in missing}
    return None if any(one is None for one in found.values()) else found


def _own(spared: Spared, least: Code) -> Spared:
    """With copies where copies are read."""
    return {key: one.clone() if key in least.copies else one for key, one in spared.items()}


def _become_checkpoint(instance: Instance, spared: Spared, versions: dict[Key, int]) -> None:
    least = instance.owner.checkpoint
    beside = {**spared, **(instance.beside or {})}
    instance.beside = {key: one for key, one in beside.items() if key in least.code.places}
    instance.versions |= {key: versions[key] for key in spared if key in least.code.checked}
    instance.variant, instance.free = least, None


def _version(argument: Any) -> int:
    return argument._version if isinstance(argument, torch.Tensor) else 0
