"""``python -m benchmarks``: rk beside PyTorch's own ways to save memory, on the same models in the same run.

Each way is a cell: it is compiled, its peak is counted by the allocator, and its steps are timed in turns
with eager steps, so that what disturbs the machine disturbs both; the ratio is the median over such pairs.
Peaks are above what is allocated before a step that begins without gradients; so the gradients of parameters
are in them. With ``--json`` every cell is kept as soon as it is there, and a run that was interrupted goes
on.

The knob is ``torch._functorch.config.activation_memory_budget`` with the kernels of ``aot_eager``. rk is
asked for the peaks that the knob and ``torch.utils.checkpoint`` reached, for half of the knob's lowest, and
for the smallest that it finds.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import rk
from benchmarks import compile_time
from benchmarks.report import document, plot, table
from rk._plan import measure

KNOB = (1.0, 0.8, 0.5, 0.3, 0.1)
Step = Callable[[], torch.Tensor]


@dataclasses.dataclass
class Row:
    """One way to run a step."""

    way: str
    setting: str
    peak: int
    seconds: float
    """Median of a step."""
    ratio: float
    """Median of the quotients of its steps and the eager steps beside them."""


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


DEFAULT = ["llama"]
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
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


class Bench:
    """All ways for one model."""

    def __init__(
        self, model: nn.Module, sample: Any, options: dict[str, Any], rounds: int, known: list[Row]
    ) -> None:
        """``options`` are those of rk; ``known`` are the cells of a run that was interrupted, and grow."""
        self.model, self.sample, self.options, self.rounds = model, sample, options, rounds
        self.rows = known
        self.keep: Callable[[], None] = lambda: None
        """Called when there is a new cell."""
        self.clock: Callable[[], float] = time.perf_counter
        self.gradients = sum(one.nbytes for one in model.parameters() if one.requires_grad)
        self.eager = measure.training_step(copy.deepcopy(model), sample)
        self.eager()

    def add(self, way: str, setting: str, make: Callable[[nn.Module], Any]) -> Row | None:
        """Compiles a way and measures it; None, with a remark, when it does not work."""
        for row in self.rows:
            if (row.way, row.setting) == (way, setting):
                return row
        # Each way is compiled for itself, and lets go of what the way before it has compiled.
        torch._dynamo.reset()
        twin = copy.deepcopy(self.model)
        start = time.perf_counter()
        try:
            step = measure.training_step(make(twin), self.sample)
            step()
            row = Row(way, setting, _peak(step, twin), *self._timed(step))
        except Exception as error:  # noqa: BLE001 - a way that fails is a result, too
            cause = getattr(error, "inner_exception", error)
            print(f"{way} {setting}: {type(cause).__name__}: {str(cause)[:200]}", file=sys.stderr, flush=True)
            return None
        self.rows.append(row)
        self.keep()
        print(
            f"{way} {setting}: peak {row.peak / 1e6:.2f} MB, {row.ratio:.2f} of eager's time; "
            f"{time.perf_counter() - start:.0f} s to find out",
            file=sys.stderr,
            flush=True,
        )
        return row

    def _timed(self, step: Step) -> tuple[float, float]:
        """Median seconds of a step, and of its ratio to an eager step beside it."""
        step()
        seconds, ratios = [], []
        for turn in range(self.rounds):
            pair = {}
            # Neither is always the one that comes second.
            for one in (step, self.eager) if turn % 2 else (self.eager, step):
                start = self.clock()
                one()
                pair[one] = self.clock() - start
            seconds.append(pair[step])
            ratios.append(pair[step] / pair[self.eager])
        return statistics.median(seconds), statistics.median(ratios)

    def within(self, peak: int) -> None:
        """``torch.compile`` with rk and the budget that keeps the measured peak, gradients included."""
        name, budget = f"{peak / 1e6:.2f} MB", peak - self.gradients
        if any((row.way, row.setting) == ("rk", name) and row.peak <= peak for row in self.rows):
            return
        row = self.planned(name, budget)
        if row is None or 0.98 * peak <= row.peak <= peak:
            return
        # Some of the gradients come later than the peak; and the caller's loss needs memory, too.
        self.rows.remove(row)
        second = self.planned(name, budget - (row.peak - peak))
        if second is None or second.peak > peak >= row.peak:
            self.rows[:] = [*(one for one in self.rows if one is not second), row]
            self.keep()

    def planned(self, name: str, budget: int, **options: Any) -> Row | None:
        """``torch.compile`` with rk."""
        given = {"budget": max(budget, 1), **self.options, **options}
        return self.add(
            "rk", name, lambda one: torch.compile(one, backend="rk", dynamic=False, options=given)
        )

    def with_knob(self, value: float) -> Row | None:
        """PyTorch's knob."""
        import torch._functorch.config as config

        with config.patch(activation_memory_budget=value):
            return self.add("knob", str(value), lambda m: torch.compile(m, backend=knob, dynamic=False))

    def run(self, settings: tuple[float, ...]) -> None:
        """All ways."""
        self.add("eager", "", lambda one: one)
        self.add("aot_eager", "", lambda one: torch.compile(one, backend="aot_eager", dynamic=False))
        checkpointed = self.add("checkpoint", "per block", per_block)
        reached = [row.peak for row in map(self.with_knob, settings) if row is not None]
        peaks = [*reached, min(reached) // 2, *([checkpointed.peak] if checkpointed else [])]
        for peak in _distinct(peaks):
            self.within(peak)
        self.planned("smallest", 1, on_infeasible="best")
        least = min(reached) - self.gradients
        self.add("Rockmate", "", lambda one: rk.Rockmate(one, self.sample, least, **self.options))
        if isinstance(self.model, nn.Sequential):
            self.add("Checkpointable", "", lambda one: rk.Checkpointable(one, self.sample, least))


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


def measured(
    name: str, given: argparse.Namespace, options: dict[str, Any], known: list[Row], keep: Callable[[], None]
) -> None:
    """Completes the rows of one model."""
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    bench = Bench(model, sample, options, given.rounds, known)
    bench.keep = keep
    bench.clock = time.process_time if given.cpu_time else time.perf_counter
    # A way that Dynamo cannot compile any more must not count as measured.
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        bench.run(tuple(float(value) for value in given.knob.split(",")))


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--knob", default=",".join(map(str, KNOB)), help="PyTorch's settings, 0.0 to 1.0")
    parser.add_argument("--rounds", type=int, default=9, help="steps of each way that are timed")
    parser.add_argument("--threads", type=int, help="of PyTorch")
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds instead of those of the clock")
    parser.add_argument("--time-limit", type=float, help="seconds per plan; what a user gets unless given")
    parser.add_argument("--json", type=Path, help="all numbers; what is in it already is not measured again")
    parser.add_argument("--document", type=Path, help="the page to write, with a drawing per model beside it")
    parser.add_argument(
        "--compile-time", action="store_true", help="measure only what rk adds to compiling a model"
    )
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    numbers = Numbers(given.json)
    if given.compile_time:
        numbers.compile_time = compile_time.table(given.rounds)
        numbers.write()
        print(numbers.compile_time)
    else:
        options = {} if given.time_limit is None else {"time_limit": given.time_limit}
        for name in given.models:
            rows = numbers.rows.setdefault(name, [])
            measured(name, given, options, rows, numbers.write)
            print(table(name, rows), flush=True)
    if given.document is not None:
        given.document.write_text(document(numbers.rows, numbers.compile_time))
        for name, rows in numbers.rows.items():
            (given.document.parent / f"{given.document.stem}-{name}.svg").write_text(plot(name, rows))


class Numbers:
    """What has been measured, kept in a file after every cell."""

    def __init__(self, path: Path | None) -> None:
        """Reads what the file has."""
        self.path = path
        kept = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self.rows = {name: [Row(**row) for row in rows] for name, rows in kept.get("rows", {}).items()}
        self.compile_time: str = kept.get("compile_time", "")

    def write(self) -> None:
        """Writes all of it."""
        if self.path is not None:
            rows = {name: [dataclasses.asdict(row) for row in rows] for name, rows in self.rows.items()}
            about = {"rows": rows, "compile_time": self.compile_time}
            self.path.write_text(json.dumps(about, indent=1))
