"""``rk.Checkpointable``: rotor's class. A sequence of modules that trains within a memory limit.

>>> chain = Checkpointable(nn.Sequential(...))
>>> chain.measure(sample)
>>> chain.compute_sequence(mem_limit=700 * 1024 * 1024)
>>> chain(data).sum().backward()

The optimal sequence comes from the solver ``rotor`` and is executed as it stands. Unlike ``rk.Rockmate`` no
graph is traced: stages are called as they are, whatever they do inside. The limit is on what the step
allocates on top of parameters, their gradients and the input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from rk._chain import chain
from rk._chain import run as chain_run
from rk._plan import measure
from rk._plan.options import parse_budget
from rk._plan.planning import readable
from rk.errors import OptionError

SHARE = 0.9
"""Of the memory that is free, where no limit is given."""
NO_SEQUENCE = "there is no sequence yet: call measure(sample) and compute_sequence(mem_limit)"


class Checkpointable(nn.Module):
    """A chain of modules with a plan of what to keep."""

    def __init__(
        self,
        model: nn.Sequential,
        input: Any = None,
        mem_limit: int | str | None = None,
        mem_slots: int = 500,
        verbosity: int = 0,
        force_python: bool = False,
        preserve_rng_state: bool = True,
        loss_tmp_memory_usage: int = 0,
        custom_input: Any = None,
    ) -> None:
        """Takes the stages of a sequence.

        Args:
            model: The sequence; nested ones are taken apart.
            input: A sample. With it the stages are measured at once.
            mem_limit: Bytes, or a text such as ``"700MiB"``. With it and a sample the sequence is planned,
                too.
            mem_slots: Accepted for rotor's scripts; the planner has slots of its own.
            verbosity: Above 0, what was measured and planned is printed.
            force_python: Accepted for rotor's scripts; the planner is no Python.
            preserve_rng_state: False saves keeping the generators' state, and is for models that draw
                nothing.
            loss_tmp_memory_usage: Bytes that are left for the loss.
            custom_input: Rotor's other name of ``input``.

        Raises:
            OptionError: The model is no sequence, is empty, or has hooks that cannot be called.
            BudgetError: No order of the stages keeps within the limit.
        """
        super().__init__()
        if not isinstance(model, nn.Sequential):
            kind = type(model).__name__
            raise OptionError(f"Checkpointable takes an nn.Sequential, not {kind}; see rk.Rockmate")
        self.model = model
        self._check_hooks()
        found = list(_stages(model, ""))
        if not found:
            raise OptionError("the nn.Sequential is empty")
        self.names = [name for name, _ in found]
        self.functions = [stage for _, stage in found]
        self._run: list[nn.Module] = list(self.functions)
        self.verbosity = verbosity
        self.preserve_rng_state = preserve_rng_state
        self.loss_tmp_memory_usage = loss_tmp_memory_usage
        self.mem_limit = mem_limit
        self.costs: list[chain.StageCost] | None = None
        self.sequence: chain.Order | None = None
        self._plan: chain.ChainPlan | None = None
        self._sample_bytes = 0
        sample = input if input is not None else custom_input
        if sample is not None:
            self.measure(sample)
            if mem_limit is not None:
                self.compute_sequence(mem_limit)

    def measure(self, input: Any) -> None:
        """Runs every stage forward and backward on a sample.

        Parameters, gradients, buffers and generators are as before.

        Args:
            input: The sample, as ``forward`` takes it.
        """
        self._run = list(self.functions)
        self.costs = chain.measured(self.names, self._run, input)
        self._sample_bytes = chain.bytes_of(list(filter(measure.differentiable, pytree.tree_leaves(input))))
        self.sequence = self._plan = None
        if self.verbosity > 0:
            print(self._table(), file=sys.stderr)

    def compute_sequence(
        self,
        mem_limit: int | str | None = None,
        mem_slots: int | None = None,
        custom_mem_limit: int | str | None = None,
    ) -> None:
        """Plans within a limit in bytes; without one, within 90 % of the memory that is free.

        Args:
            mem_limit: Bytes, or a text such as ``"700MiB"``.
            mem_slots: Accepted for rotor's scripts.
            custom_mem_limit: Rotor's other name of ``mem_limit``.

        Raises:
            BudgetError: Nothing fits; it has the smallest feasible limit.
            OptionError: Nothing was measured, or the limit is no number of bytes.
        """
        if self.costs is None:
            raise OptionError("call measure(sample) before compute_sequence()")
        limit = mem_limit if mem_limit is not None else custom_mem_limit
        self.mem_limit = self._bytes(limit)
        self._plan = chain.plan(self.costs, self.mem_limit, self._sample_bytes, self.loss_tmp_memory_usage)
        self.sequence = self._plan.operations
        if self.verbosity > 0:
            self.display()

    def forward(self, input: Any) -> Any:
        """The model's result. Where no gradient is recorded, the model is called as it is.

        Args:
            input: What the first module takes.

        Returns:
            What the last module returns.

        Raises:
            OptionError: There is no sequence yet.
        """
        if not torch.is_grad_enabled():
            return self.model(input)
        if self.sequence is None:
            raise OptionError(NO_SEQUENCE)
        self._check_hooks()
        checked, graded = [one.checked for one in self.costs], [one.graded for one in self.costs]
        return chain_run.run(self._run, self.sequence, input, self.preserve_rng_state, checked, graded)

    def _check_hooks(self) -> None:
        """OptionError if what is called stage by stage has got hooks, which are for calls as a whole."""
        stages = {id(one) for stage in getattr(self, "functions", ()) for one in stage.modules()}
        for name, module in self.model.named_modules():
            is_root = module is self.model
            is_apart = is_root or stages and type(module) is nn.Sequential and id(module) not in stages
            if is_apart and _has_hooks(module):
                where = "the nn.Sequential" if is_root else f"the nn.Sequential '{name}'"
                raise OptionError(
                    f"{where} has hooks, and its modules are called one by one. "
                    + ("Put it into another one" if is_root else "Make the Checkpointable after them")
                    + ": what has hooks is one stage"
                )

    def get_expected_memory(self) -> int:
        """Peak bytes of the sequence.

        Returns:
            Bytes on top of parameters, their gradients and the input.
        """
        return self._planned().peak

    def get_expected_makespan(self) -> float:
        """Milliseconds of the sequence, forward and backward.

        Returns:
            Milliseconds, as measured stage by stage.
        """
        return self._planned().seconds * 1e3

    def display(self) -> None:
        """Prints the measured stages and the sequence."""
        print(self._table())
        if self._plan is not None:
            plan = self._plan
            print(f"sequence: {plan.operations}")
            print(
                f"memory {readable(plan.peak)} of {readable(self.mem_limit)} (all kept: "
                f"{readable(plan.base_peak)}), time {plan.seconds * 1e3:.2f} ms (all kept: "
                f"{plan.base_seconds * 1e3:.2f} ms)"
            )

    def _planned(self) -> chain.ChainPlan:
        if self._plan is None:
            raise OptionError(NO_SEQUENCE)
        return self._plan

    def _bytes(self, limit: int | str | None) -> int:
        if limit is None:
            return int(SHARE * _free(next((one.device for one in self.parameters()), torch.device("cpu"))))
        text = parse_budget("mem_limit", int(limit) if isinstance(limit, float) else limit)
        if not text.isdecimal():
            raise OptionError(f"mem_limit={limit!r} is no number of bytes")
        return int(text)

    def _table(self) -> str:
        width = max(map(len, self.names))
        head = ("stage", "forward", "backward", "output", "saved", "workspaces")
        lines = [f"{head[0]:<{width}} " + " ".join(f"{word:>11}" for word in head[1:])]
        for one in self.costs or ():
            workspace = max(one.forward_workspace, one.backward_workspace)
            times = (f"{one.forward_seconds * 1e3:.2f} ms", f"{one.backward_seconds * 1e3:.2f} ms")
            cells = (*times, readable(one.output), readable(one.saved), readable(workspace))
            lines.append(f"{one.name:<{width}} " + " ".join(f"{cell:>11}" for cell in cells))
        return "\n".join(lines)


def _stages(model: nn.Sequential, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules of nested sequences in order, with their paths. One that has hooks stays whole."""
    # Not named_children, which leaves out what comes a second time.
    for name, child in model._modules.items():
        if type(child) is nn.Sequential and len(child) > 0 and not _has_hooks(child):
            yield from _stages(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _has_hooks(module: nn.Module) -> bool:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind) for kind in kinds)


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
