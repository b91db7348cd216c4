"""What a type checker has to see of rk's public names: ``mypy --strict`` reads this file, nothing runs it."""

from pathlib import Path
from typing import assert_type

import torch

import rk
from rk import errors

model = torch.nn.Linear(8, 8)
sample = torch.randn(4, 8)

found = rk.plan(model, sample, "60%")
assert_type(found.peak, int)
assert_type(rk.plans()[0].measured, int | None)
assert_type(rk.plans().report("run.html"), Path)
assert_type(rk.solvers(), list[str])
assert_type(rk.__version__, str)

with rk.memory_budget("2GiB"), rk.config.patch(time_limit="2s"):
    rk.compile(model, budget="60%")
rk.config.verify = True

try:
    rk.verify(model, sample, "60%")
except errors.BudgetError as error:
    assert_type(error.smallest_bytes, int | None)

rk.plans("too", "many")  # type: ignore[call-arg]
print(rk.not_there)  # type: ignore[attr-defined]
rk.config.bugdet = 1  # type: ignore[attr-defined]
