"""Operators for which autograd has another formula where somebody looks on: told, and the same with every
budget.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch

import rk
from rk._codegen import bits
from rk._online.operators import _OTHER_GRADIENT, operator

sys.path.append(str(Path(__file__).parents[1]))
from campaigns.ways import Onlooker  # noqa: E402

OPERATORS = {
    "prod": lambda x: x.prod(),
    "prod.dim_int": lambda x: x.prod(0),
    "cumprod": lambda x: x.cumprod(1),
    "masked_fill.Tensor": lambda x: x.masked_fill(x > 0.5, x[0, 0]),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
}


def gradient(run, context):
    x = torch.linspace(0.3, -0.9, 36).reshape(6, 6).requires_grad_()
    with context:
        for _ in range(3):
            loss = (run(torch.tanh(x * 1.5)) * torch.tensor(-0.7)).sin().sum()
        loss.backward()
    return x.grad


@pytest.mark.parametrize("name", OPERATORS)
def test_it_is_told_once_and_the_bits_are_those_under_a_mode(name):
    known = operator(getattr(getattr(torch.ops.aten, name.split(".")[0]), (name.split(".") + ["default"])[1]))
    known.other_gradient = True
    expected = gradient(OPERATORS[name], Onlooker())
    with pytest.warns(UserWarning, match=rf"the gradient of aten\.{name}.* by another formula"):
        assert bits.equal(gradient(OPERATORS[name], rk.memory_budget(None)), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits.equal(gradient(OPERATORS[name], rk.memory_budget(1100)), expected)


def test_the_list_is_whole():
    assert {f"aten::{name}" for name in OPERATORS} == _OTHER_GRADIENT
