"""What a step runs that is not known yet, or not any more: what holds least, and what lets others hold less.

Such a step is *careful*. A forward half runs the checkpoint, or a plan that fits beside what is there; open
instances become checkpoints where room is missing (:mod:`rk._run.less`); a backward half that would take too
much runs by another plan that reads what the instance has. If all of that is not enough, the user is told
before anything is exceeded.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import torch

from rk._codegen import saved_hooks
from rk._run import fixed, sequence
from rk._run.metered import MARGIN
from rk._run.variants import Instance, Variant
from rk.errors import BudgetError

if TYPE_CHECKING:
    from rk._run.steps import Step


class Careful:
    """The part of a group that decides one half after the other."""

    asked: str
    device: torch.device
    alone_suffices: bool
    classes: Any
    open: dict[int, Instance]
    step: Step | None
    freed: int

    def room(self, step: Step) -> int | None:
        """Bytes that a step may take above its floor; None if that is not known yet."""
        raise NotImplementedError

    def stands(self, step: Step) -> int:
        """Bytes of the budget that are there, or will be, whatever the calls of a step do."""
        return 0

    def make_room(self, need: int, without: Instance | None = None) -> int:
        """Lets open instances become checkpoints until so many bytes are free; what is still missing."""
        for one in sorted(self.open.values(), key=lambda one: -one.variant.numbers[0]):
            if need <= 0:
                break
            if one.spare is not None and one is not without and not one.closed:
                before = one.variant.numbers[0]
                one.give_up()
                self.freed += 1
                need -= before - one.variant.numbers[0]
        return max(need, 0)

    def _tell_kept(self) -> None:
        """Tells the user of calls that stay open while others come and go."""
        names = ", ".join(dict.fromkeys(one.owner.name for one in self.open.values()))
        if names:
            warnings.warn(
                f"rk: {len(self.open)} calls of {names} do not go backward, step after step, and what they "
                f"hold comes on top of the budget of {self.asked} from here on. A loss that is kept keeps "
                "all that its backward pass reads: compute it under torch.no_grad(), or keep loss.item()",
                stacklevel=2,
            )

    def _fit_backward(self, instance: Instance, room: int) -> None:
        """Sees to it that a backward half takes no more than what it holds and ``room``."""
        held, _, backward, _ = instance.variant.numbers
        if torch._C._autograd._get_current_graph_task_keep_graph():
            # Nothing is freed meanwhile that a second backward pass will read.
            backward += held
        if self.step.events[-1].accumulates:
            backward += instance.owner.gradient_bytes
        spare = self._spare(room)
        missing = self.make_room(backward - held - room + spare, instance)
        for left_free in (0, spare):
            lacking = self._tightened(instance, max(missing - left_free, 0))
            if not lacking:
                return
        self._lacks(instance, lacking)

    def _spare(self, room: int) -> int:
        """What is left free if it can be: a GPU's allocator hands out blocks that are up to a mebibyte longer
        than what is asked for.
        """
        return 0 if self.device.type == "cpu" else max(room, 0) // MARGIN

    def _tightened(self, instance: Instance, missing: int) -> int:
        """Lets a backward half run by a plan that takes less, of what it has; what is still missing."""
        owner, (held, _, backward, _) = instance.owner, instance.variant.numbers
        if not missing or not owner.switches:
            return missing
        found = owner.holding(held, backward - missing + owner.base.schedule.handed)
        if found is None or not found.code.places <= instance.variant.code.places:
            return missing
        instance.variant = found
        return max(missing - (backward - found.numbers[2]), 0)

    def _careful(self, owner: Any, level: int) -> Variant:
        """What holds least of the variants that fit beside what is there now."""
        room = self.room(self.step)
        if not owner.switches:
            return owner.base
        least, spare = owner.checkpoint, self._spare(room or 0)
        if room is None:
            # What it is a share of is not known; what a graph would have alone is within that.
            takes = least.schedule.handed + max(least.numbers[1:3])
            return least if self.open or takes <= owner.base.schedule.peak else owner.base
        _, forward, backward, _ = least.numbers
        # By then its results and what comes back for them may be there, too; they are, or are gone, if it is
        # a checkpoint of the user's that makes the call, in a backward pass.
        late = 0 if saved_hooks.runs_again() else least.schedule.handed
        takes = max(forward, backward + late)
        for coming in sorted({self._coming(owner), 0}, reverse=True):
            need = level + coming + takes - room + spare
            level -= max(need, 0) - self.make_room(need)
            free = room - spare - level - coming
            if takes <= free:
                return least
            most = free + least.schedule.handed - late
            found = owner.holding(least.numbers[0], most) or owner.holding(None, most)
            if found is not None:
                return found
        if level + max(forward, backward) <= room:
            return least
        return self.exceeds(owner, least, level)

    def _coming(self, owner: Any) -> int:
        """Bytes that will be there before the backward half of a call of this class, and are not yet."""
        return 0

    def _rest(self, owner: Any, level: int) -> int:
        """Bytes by which what is there will grow, as far as that is known, until the fullest moment."""
        return 0

    def _growths(self, owner: Any, level: int) -> list[float]:
        """Bytes by which each open call has let grow what is there; by which the first one will, if none is
        open.
        """
        forwards = [one for one in self.step.events if one.forward and one.instance.number in self.open]
        levels = [*(one.level - self.step.floor for one in forwards), level]
        if forwards:
            return [float(after - before) for before, after in itertools.pairwise(levels)]
        return [owner.checkpoint.numbers[0] + owner.checkpoint.schedule.handed / 2]

    def _lacks(self, instance: Instance, missing: int) -> None:
        """The user is told before the backward half of an instance runs that so many bytes are missing."""
        if missing <= 0:
            return
        budget, name = int(self.asked), f"backward of {instance.owner.name}"
        if not instance.owner.switches:
            # What all of its calls need is known when the step is over.
            self.step.is_told = True
            warnings.warn(
                f"rk: {name} has one plan, and {missing} bytes of the budget of {budget} are missing for it "
                "in the first step of its kind",
                stacklevel=2,
            )
            return
        smallest = budget + missing + budget // MARGIN
        text = f"{name} does not fit in {budget} bytes{self.told()}: {missing} bytes are missing"
        text += f". The smallest budget that does up to here is {smallest} bytes; what follows may need more"
        sequence.refuse(self, text, budget, smallest, name)

    def exceeds(self, owner: Any, least: Variant, level: int) -> Variant:
        """A plan that fits where what holds least does not, beside what is there when a call begins; if there
        is none, BudgetError or a warning, and ``least``.
        """
        if fixed.give_way(self):
            return least
        there = level + self.stands(self.step)
        try:
            return owner.within(max(self.room(self.step) - level, 1))
        except BudgetError as unmet:
            rest = self._rest(owner, level)
            smallest = unmet.smallest_bytes
            if smallest is not None:
                # The caller's loss, and what comes back of it, stand beside the backward half.
                smallest += there + rest + (there + smallest) // MARGIN
            text = (
                f"the calls of {len(self.classes)} graphs share the budget of {self.asked} bytes and do not "
                f"fit: {there} bytes are there{self.told()} when {owner.name} begins, and {unmet}"
            )
        if smallest is not None:
            text += f". The smallest budget that does up to here is {smallest - rest} bytes"
            follows = f"if the calls that follow are like those so far, {smallest} should do"
            text += f"; {follows if rest else 'calls that follow may need more'}"
        sequence.refuse(self, text, int(self.asked), smallest, owner.name)
        return least

    def _tell_exceeded(self, step: Step) -> None:
        """Tells the user of a step that has taken more than the budget, unless that was told meanwhile."""
        known, room = step.known, self.room(step)
        if known is not None:
            budget = known.budget
        elif room is not None:
            budget = room + self.stands(step)
        else:
            return
        took = self.taken(step) - step.to_come - (step.peak - step.surely) - step.assumed
        took = max(took, step.seen)
        is_told = step.is_told or (known is not None and known.needs is not None)
        if is_told or took <= budget + self.let_go_late():
            return
        if self.alone_suffices and step.are_apart:
            # Each graph has kept what it was given, and nothing is promised of what other code makes.
            return
        if known is None:
            cause = "it was the first of its kind, and what other code makes between the calls was not known"
        elif step.departed:
            cause = "it was not as the steps that its plans were chosen for"
        else:
            cause = f"by plan it takes {known.peak}, so other code has made more than when it was observed"
        text = f"a step of {len(step.instances)} calls has taken {took} bytes of the budget of {budget}"
        warnings.warn(f"rk: {text}: {cause}", stacklevel=2)

    def told(self) -> str:
        """What the bytes are that are there when a call begins."""
        return ""
