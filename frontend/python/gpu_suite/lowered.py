"""Chapter *the lowered step*: ``rk-bench lowered`` on the card, if it is given (``--tools DIR``)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_suite.rows import Context, Row

MODELS = {"gpt2_medium": "gpt2_medium_4", "vit_b_16": "vit_b_16_64", "llama_1b": "llama_1b_4"}


def rows(models: list[str]) -> Iterator[Row]:
    """One for each network."""
    for model, name in MODELS.items():
        if not models or model in models:
            yield Row("lowered", model, "60%", {"name": name}, 100, 240)


class Lowered:
    """Calls the program."""

    def __init__(self, context: Context) -> None:
        """Where it is."""
        self.context = context
        tools = os.environ.get("RK_SUITE_TOOLS")
        self.program = Path(tools) / "rk-bench" if tools else None

    def run(self, row: Row) -> dict[str, Any]:
        """What it says; a row without the program says that it was not run."""
        if self.program is None or not self.program.exists():
            return {"error": "not run: --tools names no folder with rk-bench"}
        command = [str(self.program), "lowered", "--device", self.context.device.type]
        command += [
            "--models",
            row.about["name"],
            "--budgets",
            row.name,
            "--processes",
            "1",
            "--seconds",
            "2",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        text = (done.stdout + done.stderr)[-8000:]
        numbers: dict[str, Any] = {"command": " ".join(command), "text": text}
        return numbers if done.returncode == 0 else {**numbers, "error": f"exit status {done.returncode}"}
