"""One training step as its group sees it: halves of instances in order, and what was read at each."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from rk._run.variants import Instance, Variant


@dataclasses.dataclass
class Event:
    """A half of an instance."""

    instance: Instance
    forward: bool
    level: int = 0
    """Bytes when it began."""
    before: int = 0
    """The most since the half before it ended."""
    raw: int = 0
    """The same with gradients."""
    gradients: int = 0
    """Bytes of the gradients, where they are not part of the level."""
    most_gradients: int = 0
    """The most of them since the half before it began."""
    late: int = 0
    """Bytes of the level that may be gradients which autograd has not given to their parameters yet."""
    accumulates: bool = False
    """The parameters have gradients, or other halves of the step make some, to which those of this half are
    added.
    """
    made: frozenset[int] = frozenset()
    """The storages of the gradients that it has made, if they are not known to be added to others."""
    ended: int = 0
    """Bytes when it was over, without these gradients."""


class Begin(NamedTuple):
    """A forward half in the sequence of a step."""

    owner: Any
    """The class."""
    has_gradients: bool
    """The parameters have gradients already, so that those of this call will be added to them: a call does
    something else, in bytes, in the first micro-batch of a step and in those that follow.
    """
    is_hooked: bool
    """Hooks get what it saves."""

    @classmethod
    def of(cls, instance: Instance) -> Begin:
        """That of an instance; all of its parameters are taken to be like the first."""
        leaves = instance.leaves
        return cls(instance.owner, bool(leaves) and leaves[0].grad is not None, instance.is_hooked)


def owners(trail: Iterable[Any]) -> list[Any]:
    """The classes of the forward halves of a sequence, in their order."""
    return [one.owner for one in trail if isinstance(one, Begin)]


MOST_EVENTS = 4096
"""A step that is longer has a call whose results are kept and never go backward."""
MOST_TURNS = 32
"""The same, of turns from backward to forward during which one call stays open."""


class Given(NamedTuple):
    """The storage of an argument."""

    storage: weakref.ref[Any]
    nbytes: int
    is_made: bool
    """It was computed, and has gradients."""


def given(arguments: Iterable[Any]) -> dict[int, Given]:
    """By address, the storages of what was computed, and of what fills its storage and might have been."""
    found = {}
    for one in arguments:
        if isinstance(one, torch.Tensor) and one.layout is torch.strided:
            storage = one.untyped_storage()
            is_made = one.grad_fn is not None
            if is_made or one.nbytes == storage.nbytes():
                found[storage._cdata] = Given(weakref.ref(storage), storage.nbytes(), is_made)
    return found


class Level(NamedTuple):
    """Memory when a half of a known step begins."""

    growth: int
    """The bytes by which all has grown since the step began."""
    gradients: int
    """Those of them that are gradients, where these are not part of a step."""
    most_gradients: int
    """The most of these since the level before, and at that."""


@dataclasses.dataclass
class Known:
    """A sequence that was observed, and the choice for it."""

    trail: tuple[Any, ...]
    """Per half, whose forward it is, a :class:`Begin`, or whose backward it is, as the place of its forward
    half.
    """
    variants: list[Variant]
    """Per forward half."""
    budget: int
    peak: int
    """Planned."""
    time: int
    lower_bound: int
    holder: str
    """What holds the peak."""
    measured: int | None = None
    """The peak of the first step that ran so; None if none was measured."""
    stood: int = 0
    """See :attr:`Step.stood`."""
    watched: dict[int, Level] = dataclasses.field(default_factory=dict)
    """See :func:`rk._run.watched.levels`."""
    made: int = 0
    """Bytes that were made for the first call before it began."""
    lets_go: bool = False
    """Whether its calls can let go of something where more memory is in use than was foreseen."""
    surprises: int = 0
    """How many of these steps in a row had more memory in use than was foreseen."""
    observed: Any = None
    """What was read of the step that the choice was made for (:class:`rk._run.observed.Observed`)."""
    needs: int | None = None
    """The smallest budget known to do, where nothing fits."""
    continued: Callable[[list[Variant], list[Variant]], list[Variant] | None] | None = None
    """What all calls may run if the first have run these, and the choice was those; None if nothing fits."""

    def after(self, begun: list[Variant]) -> Known | None:
        """The same for a step that has begun in another way; None if nothing fits any more."""
        if all(one is other for one, other in zip(begun, self.variants, strict=False)):
            return self
        found = None if self.continued is None else self.continued(begun, self.variants)
        return None if found is None else dataclasses.replace(self, variants=found, lets_go=False)


class Step:
    """From a forward half while nothing is open to the next such."""

    def __init__(self, key: Any, known: Known | None, *, metered: bool, whole: bool) -> None:
        """``metered``: memory is read at its events; ``whole``: from the first on."""
        self.key, self.known = key, known
        self.metered, self.whole = metered, whole
        self.departed = False
        """It is not as the known one."""
        self.trail: list[Any] = []
        self.events: list[Event] = []
        self.instances: list[Instance] = []
        self.ends: dict[int, int] = {}
        """Per forward half, the last event at which the instance held something."""
        self.met: set[int] = set()
        """The parameters, by identity, that a backward half has begun to compute gradients of."""
        self.floor = 0
        """Bytes that were there before the step."""
        self.peak = 0
        """The most that was read above them."""
        self.surely = 0
        """The same at least: gradients that were made meanwhile may be in the other."""
        self.assumed = 0
        """Bytes above the floor that may be no part of it: results of calls that began before the floor was
        known, if the caller had let go of them by then.
        """
        self.without: list[Any] = []
        """The parameters whose gradients a backward half has begun to compute, and that have none yet."""
        self.to_come = 0
        """With scope ``device``: bytes that will stand on the device and do not yet."""
        self.began: int | None = None
        """Bytes that were there when the first forward half began, with gradients; None if nobody looked."""
        self.given: dict[int, Given] = {}
        """By address, what the first call was given; it is taken to be of the step until :meth:`see`."""
        self.seen = 0
        """Bytes that glances at memory say it has taken at least."""
        self.has_more = False
        """It has departed because more memory is in use than was foreseen."""
        self.stood = 0
        """With scope ``device``: bytes that were there when it began, and those."""
        self.makes_states = False
        """Optimizers have made state in its backward passes, which stays from then on."""
        self.awaits = False
        """Some of its calls were made inside of checkpoints of the user's, which make them again."""
        self.is_told = False
        """The user has been told that it may exceed the budget."""
        self._oldest = -1
        """The oldest call that was open at the last turn from backward to forward."""
        self._turns = 0
        """How many turns it has seen."""

    @property
    def is_watched(self) -> bool:
        """Whether it is as expected, and memory is looked at when the half begins that was noted last."""
        known = self.known
        return known is not None and not self.departed and len(self.trail) - 1 in known.watched

    @property
    def is_careful(self) -> bool:
        """Whether instances run what holds least."""
        return self.known is None or self.departed

    def is_endless(self, open_calls: Mapping[int, Instance], begins: Instance) -> bool:
        """Whether one of the open calls will hardly go backward any more, as another one begins."""
        trail = self.trail
        if not (open_calls and trail) or isinstance(trail[-1], Begin):
            return len(trail) >= MOST_EVENTS
        if begins.is_in_checkpoint or torch._C._current_graph_task_id() != -1:
            # A checkpoint of the user's makes it once more.
            return False
        oldest = next(iter(open_calls))
        self._turns = self._turns + 1 if oldest == self._oldest else 1
        self._oldest = oldest
        return self._turns > MOST_TURNS

    @property
    def are_apart(self) -> bool:
        """Whether every instance was over before the next one began."""
        if self.awaits:
            return False
        begun = [place for place, mark in enumerate(self.trail) if isinstance(mark, Begin)]
        ends = [self.ends.get(place, len(self.trail)) for place in range(len(begun))]
        return all(end < begin for end, begin in zip(ends, begun[1:], strict=False))

    def see(self) -> None:
        """The backward pass is over. What the first call was given was there before the step, as a batch is,
        if it was not computed with gradients and somebody still has it.
        """
        mine = (one for one in self.given.values() if not one.is_made)
        self.floor += sum(one.nbytes for one in mine if one.storage() is not None)
        self.given = {}

    def would_depart(self, owner: Any) -> bool:
        """Whether a forward half of this class is not what a known step goes on with."""
        place = len(self.trail)
        return self.is_careful or owners(self.known.trail[place : place + 1]) != [owner]

    def begins(self, instance: Instance, *, forward: bool) -> bool:
        """Notes a half; whether the step is not the known one from here on."""
        mark: Any = Begin.of(instance) if forward else instance.place
        if forward:
            instance.place = len(self.instances)
            self.instances.append(instance)
        departs = False
        if self.known is not None and not self.departed:
            place = len(self.trail)
            departs = place >= len(self.known.trail) or self.known.trail[place] != mark
            self.departed = departs
        self.trail.append(mark)
        return departs

    def closed(self, instance: Instance) -> None:
        """An instance was found to hold nothing any more."""
        self.ends[instance.place] = len(self.trail) - 1
