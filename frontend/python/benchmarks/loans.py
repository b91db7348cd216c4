"""``python -m benchmarks.loans``: what it costs that the caller's tensors are copied, or not read again.

That is law S9. Networks of :mod:`benchmarks.small_models` are planned twice within the same bytes: as rk
plans, and as if nothing of the caller's could change between forward and backward, so that nothing is copied
and a second run may read all of it. Nothing runs. Times are those of the cost model (``reproducible=True``),
and the table is the same on every machine.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import rk
from benchmarks.small_models import MODELS
from rk._graph import loans
from rk._run import group

SHARES = (80, 60, 40)
NAMES = (
    "mlp",
    "gpt2",
    "llama",
    "bert",
    "lstm",
    "vit",
    "unet",
    "resnet18",
    "t5",
    "mobilenet",
    "convnext",
    "swin",
)


class Nothing(loans.Loans):
    """Nothing is lent."""

    def __init__(self, *graph: Any) -> None:
        """As the class above, and then forgotten."""
        super().__init__(*graph)
        self.arguments, self.outputs = set(), set()


FREE = {"Loans": Nothing, "copy_small": lambda *_: None, "compute_again": lambda *_: None}
"""What stands in :mod:`rk._graph.loans` when the caller changes nothing."""


@contextlib.contextmanager
def without() -> Iterator[None]:
    """Plans are made as if the caller changed nothing."""
    own = {name: getattr(loans, name) for name in FREE}
    vars(loans).update(FREE)
    try:
        yield
    finally:
        vars(loans).update(own)


def plan(name: str, budget: int | str) -> rk.Plan:
    """The plan of a network, from the same weights each time."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    about = {"reproducible": True, "on_infeasible": "best", "time_limit": "5s"}
    return rk.plan(model.train(), sample, budget, **about)


def row(name: str, share: int) -> str:
    """One line of the table: planned times and peaks, with the law and without."""
    kept = plan(name, f"{share}%")
    with without():
        free = plan(name, kept.budget)
    more = 100 * (kept.seconds / free.seconds - 1)
    times = f"{1e3 * kept.seconds:.3f} | {1e3 * free.seconds:.3f} | {more:+.2f}"
    return f"| {name} | {share} % | {times} | {kept.peak:,} | {free.peak:,} | {kept.status} / {free.status} |"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loans", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, help=f"of {', '.join(MODELS)}")
    parser.add_argument("--shares", nargs="+", type=int, default=SHARES, metavar="PERCENT")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    print("| network | budget | planned ms | without S9 | % | planned peak | without S9 | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for name in given.names:
        for share in given.shares:
            print(row(name, share), flush=True)


if __name__ == "__main__":
    main()
