"""A process that takes items, and may die over them: :mod:`.supervisor` reads what it was about.

An item comes in as a line of JSON; records go out as lines of JSON, each preceded by what is about to be
done.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch

from campaigns.opinfo import compiled, families, imported, online
from campaigns.opinfo.compiled import Outcome
from campaigns.opinfo.families import Item, Subject
from campaigns.opinfo.supervisor import TOGETHER

Tell = Callable[[dict[str, Any]], Any]


def main() -> None:
    """Serves until standard input ends."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    # What libraries print is not for the supervisor.
    os.dup2(2, 1)
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for line in sys.stdin:
        _serve(json.loads(line), lambda about: told.write(json.dumps(about) + "\n"))


def _serve(asked: dict[str, Any], tell: Tell) -> None:
    item = Item(**asked["item"])
    # Costs of one item are of no use to the next, and a large file of them is slow to read.
    folder = tempfile.mkdtemp(prefix="rk-opinfo-")
    os.environ["RK_CACHE_DIR"] = folder
    try:
        samples = [one for one in families.subjects(item, asked["samples"]) if one[0] > asked["after"]]
        together = _together(samples, asked["ways"], tell, asked["dynamo"]) if asked["together"] else None
        for number, subject in samples:
            tell({"at": "start", "sample": number})
            tell({"record": record(item, number, subject, asked["ways"], tell, asked["dynamo"], together)})
    except Exception as error:  # noqa: BLE001 - a database that cannot make its samples here
        about = {compiled.PLAIN: {"kind": "torch", "reason": f"samples: {compiled.told(error)}"}}
        tell({"record": {"item": item.key, "sample": -1, "ways": about}})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tell({"done": item.key})


def _together(
    samples: Sequence[tuple[int, Subject]], ways: Sequence[str], tell: Tell, dynamo: bool
) -> dict[str, Outcome] | None:
    """What becomes of all samples in one function, which takes less time; None unless all is well."""
    through = [way for way in ways if way in compiled.WAYS]
    if len(samples) < 2 or not through:
        return None
    found = compiled.outcomes(
        [subject for _, subject in samples],
        through,
        lambda way: tell({"at": way, "sample": TOGETHER}),
        dynamo,
    )
    well = found[compiled.PLAIN].kind == "equal" and all(found[way].kind == "equal" for way in through)
    return found if well else None


def record(
    item: Item,
    number: int,
    subject: Subject,
    ways: Sequence[str],
    tell: Tell,
    dynamo: bool = True,
    together: dict[str, Outcome] | None = None,
) -> dict[str, Any]:
    """What becomes of a sample in all ways; ``together`` is known already."""

    def at(way: str) -> None:
        tell({"at": way, "sample": number})

    found: dict[str, Any] = {}
    through = [way for way in ways if way in compiled.WAYS]
    if through:
        found.update(together or compiled.outcomes([subject], through, at, dynamo))
    for way in ways:
        if way in imported.WAYS:
            at(way)
            found[way] = imported.outcome(subject, item.differentiable)
        if way in online.WAYS:
            at(way)
            found[way] = online.outcome(subject)
    about = {way: _brief(dataclasses.asdict(one)) for way, one in found.items()}
    return {"item": item.key, "sample": number, "ways": about}


def _brief(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name == "kind" or value not in ("", [], True)}


if __name__ == "__main__":
    main()
