"""``rk.Rockmate``: a model that trains within a budget, with the class that users of Rockmate know.

The same path as ``torch.compile(model, backend="rk")``; the class adds what is convenient around it: the
budget is checked when the object is made, what the plan promises can be asked, and plans can be kept in
files.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rk._compile.backend import rk
from rk._graph import capture
from rk._plan import cache, schedule, shares
from rk._plan.options import Options
from rk.errors import OptionError


class Rockmate(nn.Module):
    """A model whose training step stays within a budget and computes the same bits.

    >>> model = Rockmate(model, sample, "2GiB")
    >>> loss = model(x).mean()
    >>> loss.backward()
    """

    def __init__(self, model: nn.Module, sample: Any, budget: int | str = "auto", **options: Any) -> None:
        """Plans the training step of a model; nothing of it is run.

        Args:
            model: The model.
            sample: One input, a tuple of arguments, or a dict of keywords.
            budget: Bytes, ``"2GiB"``, a share such as ``"60%"`` of the peak without recomputation, or
                ``"auto"``: what the device has left.
            **options: Those of the backend.

        Raises:
            BudgetError: Nothing fits into the budget.
            CompileError: The model is not one graph.
            OptionError: An option, a unit or a value is not known.
        """
        super().__init__()
        self._options = Options.parse({**options, "budget": budget})
        self._options.check_foreseen("rk.Rockmate")
        problem, budget = _problem(model, sample, self._options)
        self._plan_name = problem.name(budget, 0, self._options.solver)
        self._plan = problem.plan(budget, 0)
        self.original_mod = model
        self._compiled = torch.compile(model, backend=rk, dynamic=False, options=self._options.as_dict())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result.

        Args:
            *args: What the model takes.
            **kwargs: What the model takes by name.

        Returns:
            What the model returns.
        """
        return self._compiled(*args, **kwargs)

    def backward(self, *_: Any, **__: Any) -> None:
        """Does nothing: ``loss.backward()`` has done all. Scripts written for Rockmate call it."""

    @property
    def expect_time(self) -> float:
        """Milliseconds of one step, forward and backward, as planned from measured operators."""
        return self._plan.time * 1e-6

    @property
    def expect_mem(self) -> int:
        """Peak bytes of one step, as planned; in the scope of the budget."""
        return self._plan.peak

    @property
    def budget(self) -> int:
        """Bytes that the step may take."""
        return self._plan.budget

    def save_plan(self, path: str | os.PathLike[str]) -> Path:
        """Writes the plan to a file.

        Args:
            path: The file to write.

        Returns:
            The path.

        Raises:
            OptionError: The plan is not in the cache, whose folder may not be writable.
        """
        from rk._plan.files import save

        answer = cache.read(self._options.cache_folder(), self._plan_name)
        if answer is None:
            raise OptionError("the plan is not in the cache; is its folder writable?")
        asked = {**self._options.as_dict(), "cache_dir": None, "dump_dir": None}
        text = json.dumps({"rk_plan": 1, "name": self._plan_name, "options": asked, "answer": answer})
        save(Path(path), text.encode())
        return Path(path)

    @classmethod
    def load_plan(cls, path: str | os.PathLike[str], model: nn.Module, sample: Any) -> Rockmate:
        """A model with a plan from a file: no operator is measured, nothing is solved.

        Args:
            path: What :meth:`save_plan` wrote.
            model: The model that the plan was made for.
            sample: A sample of the same sizes.

        Returns:
            The model, ready to train.

        Raises:
            OptionError: The file is no plan, or one of another step (another model, sample, version of
                PyTorch, device or number of threads).
        """
        try:
            kept = json.loads(Path(path).read_text())
            options, name, answer = Options.parse(kept["options"]), kept["name"], kept["answer"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"{os.fspath(path)} is no plan of rk: {error}") from error
        problem, budget = _problem(model, sample, options)
        if problem.name(budget, 0, options.solver) != name:
            raise OptionError(
                f"{os.fspath(path)} is the plan of another step: another model, sample, version of PyTorch, "
                "device or number of threads"
            )
        cache.write(options.cache_folder(), name, answer)
        return cls(model, sample, **options.as_dict())

    def __getattr__(self, name: str) -> Any:
        """Attributes of the model, such as its ``config``."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name in ("original_mod", "_compiled"):
                raise
            return getattr(super().__getattr__("original_mod"), name)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own, so that checkpoints fit with and without rk."""
        return self.original_mod.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own."""
        return self.original_mod.load_state_dict(*args, **kwargs)


def _problem(model: nn.Module, sample: Any, options: Options) -> tuple[schedule.Problem, str]:
    """The step as ``torch.compile`` will plan it, and its budget."""
    step = capture.step_of(model, sample)
    device = schedule.device_of(step)
    problem = schedule.Problem(step, options, device)
    return problem, shares.budget_of(problem)


CheckpointedModule = Rockmate
"""Rockmate's other name."""
