"""What a campaign has found, as a table: features of programs against ways, and refusals by their words."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from campaigns.process import FINDINGS

GROUPS = ("fx", "rk", "Rockmate", "online", "inductor")


def read(path: Path) -> dict[int, dict[str, Any]]:
    """The results of a file by their seeds; a last line that was cut off is left out."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        found[one["seed"]] = one
    return found


def signature(outcome: Mapping[str, str]) -> str:
    """What makes two findings the same kind: verdict and error, without numbers and names."""
    detail = re.sub(r"\d+", "N", outcome["detail"])
    if outcome["verdict"] == "crash":
        return f"crash {detail[:60]}{detail[detail.rfind('@') :]}"
    return outcome["verdict"]


def summary(results: Iterable[Mapping[str, Any]], file: TextIO) -> int:
    """Prints the table; returns the number of findings."""
    table: dict[str, dict[str, collections.Counter[str]]] = collections.defaultdict(
        lambda: collections.defaultdict(collections.Counter)
    )
    refusals: collections.Counter[str] = collections.Counter()
    incomparable: collections.Counter[str] = collections.Counter()
    findings: dict[str, list[int]] = collections.defaultdict(list)
    programs = runs = 0
    seconds = 0.0
    for one in results:
        programs += 1
        seconds += one["seconds"]
        for outcome in one["outcomes"]:
            runs += 1
            group = outcome["way"].split()[0]
            verdict = outcome["verdict"]
            verdict = "finding" if verdict in FINDINGS else verdict
            for feature in [*one["features"], "all"]:
                table[feature][group][verdict] += 1
            words = re.sub(r"\d[\d.,]*", "N", outcome["detail"])[:110]
            if verdict == "refused":
                refusals[f"{group}: {words}"] += 1
            elif verdict == "not comparable":
                incomparable[words[:80]] += 1
            elif verdict == "finding":
                findings[f"{outcome['way'].split()[0]} {signature(outcome)}"].append(one["seed"])
    print(
        f"{programs} programs, {runs} runs, {seconds:.0f} s. Right/refused/not comparable/findings:",
        file=file,
    )
    print(f"{'':24}" + "".join(f"{group:>20}" for group in GROUPS), file=file)
    for feature in sorted(table, key=lambda name: (name != "all", name)):
        cells = (table[feature][group] for group in GROUPS)
        texts = (
            f"{cell['right']}/{cell['refused']}/{cell['not comparable']}/{cell['finding']}" if cell else ""
            for cell in cells
        )
        print(f"{feature:24}" + "".join(f"{text:>20}" for text in texts), file=file)
    for name, counts in (("Refusals", refusals), ("Not comparable", incomparable)):
        print(f"{name}:", file=file)
        for words, count in counts.most_common(40):
            print(f"  {count:6} {words}", file=file)
    print("Findings:", file=file)
    for kind, seeds in sorted(findings.items(), key=lambda one: -len(one[1])):
        print(f"  {len(seeds):6} {kind}: seeds {', '.join(map(str, seeds[:8]))}", file=file)
    return sum(map(len, findings.values()))
