"""Records summed up as Markdown: what was equal, refused (by reason), unsteady, wrong."""

from __future__ import annotations

import collections
import datetime
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

PLAIN = "aot_eager"
KINDS = ("equal", "refused", "unsteady", "slow", "wrong", "crash")
WAYS = {
    "fx": 'codegen `"fx"`',
    "rk": 'codegen `"rk"`',
    "online": "`rk.memory_budget`",
    "import": "`rk-import` to `rk-run --check`",
}
MOST_NAMES = 12


class Summary:
    """What a file of records says."""

    def __init__(self, path: Path) -> None:
        """Reads it; what was run twice counts as it was the last time."""
        self.records: dict[tuple[str, int], dict[str, Any]] = {}
        lines = (json.loads(line) for line in path.read_text().splitlines())
        for line in lines:
            if "item" in line:
                known = self.records.setdefault((line["item"], line["sample"]), {})
                known.update(line["ways"])

    def faults(self) -> list[tuple[str, int, str, str]]:
        """What must not be: item, sample, way, and what happened."""
        return [
            (item, sample, way, f"{about['kind']}: {about.get('reason', '')}")
            for (item, sample), ways in self.records.items()
            for way, about in ways.items()
            if about["kind"] in ("wrong", "crash", "slow") or about.get("kept") is False
        ]

    def markdown(self) -> str:
        """The page."""
        parts = [self._head(), self._numbers(), self._dtypes(), self._recomputed()]
        for way in WAYS:
            parts.append(self._reasons(f"Refused: {WAYS[way]}", self._of(way, "refused")))
        parts.append(
            self._reasons("Equal to eager PyTorch under a mode that does nothing", self._told("equal"))
        )
        parts.append(
            self._reasons("Not reproducible by itself: two runs without a plan differ", self._unsteady())
        )
        parts.append(self._reasons("PyTorch itself does not", self._of(PLAIN, "torch")))
        parts.append(self._reasons("PyTorch's tracing for TorchScript does not", self._of("import", "torch")))
        parts.append(self._faults())
        return "\n".join(part for part in parts if part)

    def _head(self) -> str:
        operators = {_operator(item) for item, _ in self.records}
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
        ).stdout.strip()
        version = torch.__version__.split("+")[0]
        return (
            "# PyTorch's own samples through rk\n\n"
            "Every operator's samples in what ships with PyTorch (`op_db`, `module_db`, `hop_db`,\n"
            "`custom_op_db`, `autograd_function_db`), each inside of a small training function, forward and\n"
            "backward, on the CPU. Compared are all bits of outputs, gradients, what is overwritten and the\n"
            "generator with those of `aot_eager` (`rk-import` and `rk.memory_budget`: with those of eager\n"
            "PyTorch).\n"
            f"Summed up on {datetime.date.today().isoformat()} at commit {commit or 'unknown'}, with\n"
            f"records of earlier days that were kept; torch {version}: {len(operators)} operators, "
            f"{len(self.records)} samples.\n"
            "Written by `python -m campaigns.opinfo --table`.\n"
        )

    def _numbers(self) -> str:
        lines = ["| | samples | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 2) + "|"]
        lines[1] = "|---" + "|---:" * (len(KINDS) + 1) + "|"
        for way, name in WAYS.items():
            count = collections.Counter(ways[way]["kind"] for ways in self.records.values() if way in ways)
            if count:
                total = sum(count[kind] for kind in KINDS)
                lines.append(f"| {name} | {total} | " + " | ".join(str(count[kind]) for kind in KINDS) + " |")
        return "\n".join(lines) + "\n"

    def _dtypes(self) -> str:
        groups: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for (item, _), ways in self.records.items():
            family, *_, dtype = item.split(":")
            kinds = {about["kind"] for way, about in ways.items() if way in WAYS}
            worst = next((kind for kind in reversed(KINDS) if kind in kinds), "torch")
            groups[family, dtype][worst] += 1
        lines = ["By database and dtype; a sample counts as the worst of what became of it:\n"]
        lines.append("| database | dtype | " + " | ".join(KINDS) + " | not by PyTorch |")
        lines.append("|---|---" + "|---:" * (len(KINDS) + 1) + "|")
        for (family, dtype), count in groups.items():
            lines.append(
                f"| {family} | {dtype} | " + " | ".join(str(count[k]) for k in (*KINDS, "torch")) + " |"
            )
        return "\n".join(lines) + "\n"

    def _recomputed(self) -> str:
        ran: dict[str, bool] = {}
        for (item, _), ways in self.records.items():
            about = ways.get("fx", {})
            if about.get("kind") == "equal" and (about.get("again") or about.get("once")):
                ran[_operator(item)] = ran.get(_operator(item), False) or bool(about.get("again"))
        if not ran:
            return ""
        never = sorted(name for name, again in ran.items() if not again)
        text = f"Of {len(ran)} operators whose calls could be told apart, {len(ran) - len(never)} ran again."
        return text + (f" Never again ran: {_names(never, 60)}.\n" if never else "\n")

    def _of(self, way: str, kind: str) -> Iterator[tuple[str, str]]:
        for (item, _), ways in self.records.items():
            about = ways.get(way)
            if about is not None and about["kind"] == kind:
                yield item, about.get("reason", "")

    def _told(self, kind: str) -> Iterator[tuple[str, str]]:
        """Online, of one kind, with something to say."""
        return (one for one in self._of("online", kind) if one[1])

    def _unsteady(self) -> Iterator[tuple[str, str]]:
        for way in WAYS:
            yield from self._of(way, "unsteady")

    def _reasons(self, title: str, found: Iterable[tuple[str, str]]) -> str:
        groups: dict[str, set[str]] = collections.defaultdict(set)
        samples: collections.Counter[str] = collections.Counter()
        for item, reason in found:
            groups[_general(reason)].add(_operator(item))
            samples[_general(reason)] += 1
        if not groups:
            return ""
        lines = [f"## {title}\n", "| samples | reason | operators |", "|---:|---|---|"]
        for reason, count in samples.most_common():
            lines.append(f"| {count} | {reason} | {_names(sorted(groups[reason]), MOST_NAMES)} |")
        return "\n".join(lines) + "\n"

    def _faults(self) -> str:
        found = self.faults()
        if not found:
            return "## Faults\n\nNone.\n"
        lines = ["## Faults\n", "| item | sample | way | |", "|---|---:|---|---|"]
        lines += [f"| {item} | {sample} | {way} | {_cell(about)} |" for item, sample, way, about in found]
        return "\n".join(lines) + "\n"


def _operator(item: str) -> str:
    return ":".join(item.split(":")[:2]).removeprefix("op:")


def _names(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


def _cell(text: str) -> str:
    return re.sub(r"[|<>*_]", lambda found: f"\\{found[0]}", text)


def _general(reason: str) -> str:
    """A reason without what is particular to a sample."""
    text = re.sub(r"0x[0-9a-f]+", "0x…", reason)
    text = re.sub(
        r"\(?from user code.*|For more details.*|Developer debug context.*|Explanation:.*", "", text
    )
    text = re.sub(r"'[^']{1,80}'|\"[^\"]{1,80}\"", "'…'", text)
    text = re.sub(r"%[\w#]+|\d+(\.\d+)?", "n", text)
    return _cell(text[:160].strip())
