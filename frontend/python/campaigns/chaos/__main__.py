"""``python -m campaigns.chaos``: changes steps of networks at random, and runs what no law refuses.

A step is changed at stage ``scheduled`` (what runs when) and at stage ``lowered`` (what lies where). A change
that no law refuses must give the bits of the step as it was: exits with 1 when one does not.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

from campaigns.chaos import mutations
from campaigns.chaos.steps import Refused, Step, steps_of
from campaigns.opinfo.compiled import difference, same
from campaigns.small_networks import NETWORKS

STAGES = ("scheduled", "lowered")
Counts = dict[tuple[str, str], collections.Counter[str]]


def verdict(step: Step, stage: str, text: str) -> tuple[str, str]:
    """``S1`` to ``S9``, ``form`` or ``runtime`` where it is refused, else ``equal`` or ``wrong``; details."""
    try:
        file = step.checked(stage, text)
    except Refused as refused:
        return refused.law, str(refused)
    try:
        found = step.run(file)
    except Refused as refused:
        return refused.law if refused.law != "form" else "runtime", str(refused)
    if same(step.expected, found):
        return "equal", ""
    return "wrong", difference(step.expected, found)


def chaos(step: Step, seed: int, each: int, end: float) -> Iterable[tuple[str, str, str, str, str]]:
    """Changes a step ``each`` times in each way: stage, kind, verdict, details and text."""
    for stage in STAGES:
        for kind in mutations.kinds(stage):
            for number in range(each):
                if time.monotonic() > end:
                    return
                dice = Random(f"{seed} {stage} {kind} {number}")
                text = mutations.mutated(stage, getattr(step, stage), kind, dice)
                if text is not None:
                    yield stage, kind, *verdict(step, stage, text), text


def table(counts: Counts) -> str:
    """How often each kind of change was refused by which law."""
    names = sorted({name for one in counts.values() for name in one})
    lines = ["| stage | change | " + " | ".join(names) + " |", "|---|---" + "|---:" * len(names) + "|"]
    for (stage, kind), count in counts.items():
        cells = " | ".join(str(count[name] or "") for name in names)
        lines.append(f"| {stage} | {kind} | {cells} |")
    return "\n".join(lines)


def main() -> int:
    """Exit code 1 if a change that no law refused gave other bits."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.chaos", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where findings and the table go"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=10, help="changes of a kind in a step")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    parser.add_argument(
        "--only", nargs="*", default=list(NETWORKS), choices=list(NETWORKS), metavar="NETWORK"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    counts: Counts = collections.defaultdict(collections.Counter)
    steps = wrong = 0
    for name in given.only:
        if time.monotonic() > end:
            break
        try:
            made = steps_of(NETWORKS[name])
        except Refused as refused:
            print(f"{name}: {refused}", file=sys.stderr)
            continue
        for step in made:
            steps += 1
            for stage, kind, found, details, text in chaos(step, given.seed, given.each, end):
                counts[stage, kind][found] += 1
                if found == "wrong":
                    wrong += 1
                    path = given.out / f"{wrong}-{stage}.mlir"
                    path.write_text(text)
                    (given.out / f"{wrong}-before.mlir").write_text(getattr(step, stage))
                    print(f"wrong: {name}, {stage}, {kind}: {details[:200]}: {path}", file=sys.stderr)
        changes = sum(sum(one.values()) for one in counts.values())
        print(f"{name}: {changes} changes", file=sys.stderr)
        (given.out / "table.md").write_text(f"{steps} steps, {changes} changes\n\n{table(counts)}\n")
    print((given.out / "table.md").read_text())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
