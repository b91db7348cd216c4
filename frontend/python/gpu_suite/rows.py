"""A row: one measurement, small enough to be lost."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

LOCK = "RK_SUITE_LOCK"
"""The environment variable that names the file by which processes leave the card to one of them."""


@dataclasses.dataclass
class Row:
    """What is measured, and what it may take."""

    chapter: str
    model: str
    name: str
    about: dict[str, Any]
    """What the chapter needs to know; JSON."""
    estimate: float
    """Seconds: a row is not begun when less is left."""
    limit: float
    """Seconds after which it is given up."""
    needs: list[str] = dataclasses.field(default_factory=list)
    """Rows of the same network whose peaks it is told."""

    gigabytes: float = 5.0
    """What it takes of the card, at most."""

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is found among what was measured."""
        return self.chapter, self.model, self.name

    @property
    def group(self) -> tuple[str, str]:
        """Rows of one group share a process."""
        return self.chapter, self.model


@dataclasses.dataclass
class Context:
    """Where the rows run."""

    device: torch.device
    small: bool
