"""``python -m campaigns.opinfo --out DIR``: runs the campaign, goes on with it, sums it up."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from campaigns.opinfo import families, supervisor, table

DTYPES = ("f32", "f64", "bf16", "c64")


def main() -> int:
    """Exit code 1 if something was wrong or crashed."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.opinfo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where records go, and the table"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after as many; what is left runs next time"
    )
    parser.add_argument("--samples", type=int, default=4, help="samples of an operator in one dtype")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help=f"of {', '.join(families.DTYPES)}")
    parser.add_argument(
        "--families", default=",".join(families.FAMILIES), help="of " + ", ".join(families.FAMILIES)
    )
    parser.add_argument("--ways", default="fx,rk", help="compile: fx, rk; import; online")
    parser.add_argument("--only", default="", metavar="REGEX", help="items whose key matches")
    parser.add_argument("--direct", action="store_true", help="without Dynamo, in half of the time")
    parser.add_argument("--again", action="store_true", help="run what is on record again")
    parser.add_argument("--docs", type=Path, metavar="FILE.md", help="write the table there, too")
    parser.add_argument("--table", action="store_true", help="sum up what is on record, run nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "records.jsonl"
    if not given.table:
        items = families.items(tuple(given.families.split(",")), tuple(given.dtypes.split(",")))
        items = [one for one in items if re.search(given.only, one.key)]
        if given.again:
            path.unlink(missing_ok=True)
        seen = supervisor.known(path)
        with path.open("a") as out:
            end = time.monotonic() + 60 * given.minutes
            todo = [one for one in items if one.key not in seen]
            asked = {"samples": given.samples, "ways": given.ways.split(","), "dynamo": not given.direct}
            complete = supervisor.run(todo, out, end, **asked)
        if not complete:
            print(f"stopped after {given.minutes:.0f} minutes", file=sys.stderr)
    summary = table.Summary(path)
    text = summary.markdown()
    (given.out / "table.md").write_text(text)
    if given.docs is not None:
        given.docs.write_text(text)
    print(text)
    return 1 if summary.faults() else 0


if __name__ == "__main__":
    sys.exit(main())
