"""What people read of a plan: the files in ``dump_dir``, and the artifacts that ``TORCH_TRACE`` keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from torch._logging._internal import trace_log, trace_structured_artifact

from rk._graph.step import Step

_ORDER = ("raw", "dataflow", "simplified", "blocks", "costed", "scheduled", "lowered")


def keep(folder: Path | None, name: str, stages: dict[str, str]) -> None:
    """Keeps the text of stages of a plan: in PyTorch's trace, and in the folder if there is one."""
    for stage, text in stages.items():
        # The step as it was read has the name that it has in the manual.
        artifact = "rk_step" if stage == "raw" else f"rk_{stage}"
        trace_structured_artifact(artifact, "string", lambda text=text: text)
    if folder is not None:
        _write(folder, name, stages)


def _write(folder: Path, name: str, stages: dict[str, str]) -> None:
    # Numbered in their order.
    folder.mkdir(parents=True, exist_ok=True)
    for stage, text in stages.items():
        place = _ORDER.index(stage) if stage in _ORDER else 9
        (folder / f"{name[:13]}-{place}-{stage}.mlir").write_text(text)


def are_traced() -> bool:
    """Whether somebody keeps artifacts."""
    return bool(trace_log.handlers)


def second_runs(step: Step, runs: Iterable[tuple[int, bool]]) -> str:
    """The names of the calls that a plan runs again, in the order in which it does."""
    nodes = (step.lines[line - 1] for line, again in runs if again)
    return ", ".join(node.name for node in nodes if node is not None) or "none"


def sources(folder: Path, prefix: str) -> Callable[[str, str], None]:
    """Takes the name and the source of a pass, and writes it down."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name, source: (folder / f"{prefix}-{name}.py").write_text(source)
