"""``python -m rk.bench``: rk beside PyTorch's own ways to save memory, on the same models in the same run.

Every way is compiled and measured in one process; step times are medians over rounds in which each way runs
once, so that what disturbs the machine disturbs all of them. Peaks are counted by the allocator, above what
is allocated before a step that begins without gradients; so the gradients of parameters are in them.

The knob is ``torch._functorch.config.activation_memory_budget`` with the kernels of ``aot_eager``. rk is
asked for the peaks that the knob and ``torch.utils.checkpoint`` reached, for half of the knob's lowest, and
for the smallest that it finds.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import rk
from rk import measure
from rk.bench_report import document, plot, table

KNOB = (1.0, 0.8, 0.5, 0.3, 0.1)
Step = Callable[[], torch.Tensor]


@dataclasses.dataclass
class Row:
    """One way to run a step."""

    way: str
    setting: str
    peak: int
    seconds: float = 0.0


def llama(layers: int = 12, width: int = 64, batch: int = 2, length: int = 512) -> tuple[nn.Module, Any]:
    """A decoder of transformers' Llama kind, without its head."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
        use_cache=False,
    )
    return LlamaModel(config).train(), torch.randint(0, 1000, (batch, length))


def gpt2(layers: int = 6, width: int = 64, batch: int = 2, length: int = 256) -> tuple[nn.Module, Any]:
    """A GPT-2 with dropout, without its head."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_embd=width, n_layer=layers, n_head=4, vocab_size=1000, n_positions=length, use_cache=False
    )
    return GPT2Model(config).train(), torch.randint(0, 1000, (batch, length))


def resnet18(batch: int = 8, size: int = 64) -> tuple[nn.Module, Any]:
    """torchvision's ResNet-18 as a sequence, so that all drop-ins can run it."""
    return rk.models.resnet18(num_classes=100).train(), torch.randn(batch, 3, size, size)


MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {"llama": llama, "gpt2": gpt2, "resnet18": resnet18}


DEFAULT = ["llama", "resnet18"]
"""What is compared unless the user says what."""


class InBlocks(nn.Module):
    """A sequence with ``torch.utils.checkpoint`` around each of its blocks."""

    def __init__(self, blocks: nn.Sequential) -> None:
        """``blocks`` are shared."""
        super().__init__()
        self.blocks = blocks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same result."""
        from torch.utils.checkpoint import checkpoint

        for block in self.blocks:
            parts = list(block) if type(block) is nn.Sequential else [block]
            for part in parts:
                x = checkpoint(part, x, use_reentrant=False)
        return x


def per_block(model: nn.Module) -> nn.Module:
    """A model with PyTorch's checkpoints around its blocks."""
    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model
    return InBlocks(model)


def knob(gm: Any, example_inputs: Any) -> Any:
    """A backend with PyTorch's own partitioner and the kernels of ``aot_eager``."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return aot_autograd(
        fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=min_cut_rematerialization_partition
    )(gm, example_inputs)


class Bench:
    """All ways for one model."""

    def __init__(self, model: nn.Module, sample: Any, time_limit: float) -> None:
        """Nothing is run yet."""
        self.model, self.sample, self.time_limit = model, sample, time_limit
        self.rows: list[tuple[Row, Step]] = []
        self.gradients = sum(one.nbytes for one in model.parameters() if one.requires_grad)

    def add(self, way: str, setting: str, make: Callable[[nn.Module], Any]) -> Row | None:
        """Compiles a way and measures its peak; None, with a remark, when it does not work."""
        twin = copy.deepcopy(self.model)
        try:
            step = measure.training_step(make(twin), self.sample)
            step()
            row = Row(way, setting, _peak(step, twin))
        except Exception as error:  # noqa: BLE001 - a way that fails is a result, too
            cause = getattr(error, "inner_exception", error)
            print(f"{way} {setting}: {type(cause).__name__}: {str(cause)[:200]}", file=sys.stderr)
            return None
        self.rows.append((row, step))
        print(f"{way} {setting}: peak {row.peak / 1e6:.2f} MB", file=sys.stderr, flush=True)
        return row

    def within(self, peak: int) -> Row | None:
        """``torch.compile`` with rk and the budget that keeps the measured peak, gradients included."""
        name, budget = f"{peak / 1e6:.2f} MB", peak - self.gradients
        row = self.planned(name, budget)
        if row is not None and row.peak > peak:
            # What the caller's loss needs while it holds the outputs.
            self.rows.pop()
            row = self.planned(name, budget - (row.peak - peak))
        return row

    def planned(self, name: str, budget: int, **options: Any) -> Row | None:
        """``torch.compile`` with rk."""
        given = {"budget": max(budget, 1), "time_limit": self.time_limit, **options}
        return self.add(
            "rk", name, lambda one: torch.compile(one, backend="rk", dynamic=False, options=given)
        )

    def with_knob(self, value: float) -> Row | None:
        """PyTorch's knob."""
        import torch._functorch.config as config

        # Another object for each setting: Dynamo would take the code of the setting before.
        backend = functools.partial(knob)
        with config.patch(activation_memory_budget=value):
            return self.add("knob", str(value), lambda m: torch.compile(m, backend=backend, dynamic=False))

    def run(self, settings: tuple[float, ...], rounds: int) -> list[Row]:
        """Everything, and then the rounds."""
        self.add("eager", "", lambda one: one)
        checkpointed = self.add("checkpoint", "per block", per_block)
        reached = [row.peak for row in map(self.with_knob, settings) if row is not None]
        peaks = [*reached, min(reached) // 2, *([checkpointed.peak] if checkpointed else [])]
        for peak in _distinct(peaks):
            self.within(peak)
        self.planned("smallest", 1, on_infeasible="best")
        least = min(reached) - self.gradients
        limit = self.time_limit
        self.add("Rockmate", "", lambda one: rk.Rockmate(one, self.sample, least, time_limit=limit))
        if isinstance(self.model, nn.Sequential):
            self.add("Checkpointable", "", lambda one: rk.Checkpointable(one, self.sample, least))
        durations: list[list[float]] = [[] for _ in self.rows]
        for _ in range(rounds):
            for index, (_, step) in enumerate(self.rows):
                start = time.perf_counter()
                step()
                durations[index].append(time.perf_counter() - start)
        for (row, _), seconds in zip(self.rows, durations, strict=True):
            row.seconds = statistics.median(seconds)
        return [row for row, _ in self.rows]


def _distinct(peaks: list[int]) -> list[int]:
    """The largest first; of several within one percent only the smallest."""
    kept: list[int] = []
    for peak in sorted(peaks):
        if not kept or peak > 1.01 * kept[-1]:
            kept.append(peak)
    return kept[::-1]


def _peak(step: Step, model: nn.Module) -> int:
    """Peak bytes of a step that begins without gradients, as after ``zero_grad()``."""
    model.zero_grad(set_to_none=True)
    with measure.memory(measure.device_of(model)) as measured:
        step()
    return measured.peak


def results(
    names: list[str], settings: tuple[float, ...], rounds: int, time_limit: float
) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each model."""
    # All ways share the code of one class: with fewer places Dynamo would let some of them run eagerly.
    limits = {"recompile_limit": 99, "accumulated_recompile_limit": 999, "fail_on_recompile_limit_hit": True}
    for name in names:
        torch.manual_seed(0)
        torch._dynamo.reset()
        model, sample = MODELS[name]()
        with torch._dynamo.config.patch(**limits):
            rows = Bench(model, sample, time_limit).run(settings, rounds)
        yield name, rows


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m rk.bench", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--knob", default=",".join(map(str, KNOB)), help="PyTorch's settings, 0.0 to 1.0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=3.0, help="seconds per plan")
    parser.add_argument("--json", type=Path, help="all numbers; those of other models in it are kept")
    parser.add_argument("--document", type=Path, help="the page to write, with a drawing per model beside it")
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    settings = tuple(float(value) for value in given.knob.split(","))
    everything = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    for name, rows in results(given.models, settings, given.rounds, given.time_limit):
        print(table(name, rows), flush=True)
        everything[name] = [dataclasses.asdict(row) for row in rows]
    if given.json is not None:
        given.json.write_text(json.dumps(everything, indent=1))
    if given.document is not None:
        all_rows = {name: [Row(**row) for row in rows] for name, rows in everything.items()}
        given.document.write_text(document(all_rows))
        for name, rows in all_rows.items():
            (given.document.parent / f"{given.document.stem}-{name}.svg").write_text(plot(name, rows))


if __name__ == "__main__":
    main()
