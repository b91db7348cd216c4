"""The comparison behind ``verify`` and ``rk.verify`` tells apart what ``==`` does not, and the other way."""

from __future__ import annotations

import math

import pytest
import torch

from rk._codegen import bits

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pair", [(0.0, -0.0), (math.inf, "max"), (math.nan, 1.0e30), (1.0, "next")])
def test_other_bits_are_noticed(dtype, pair):
    largest = torch.finfo(dtype).max
    after_one = 1.0 + torch.finfo(dtype).eps
    left, right = ({"max": largest, "next": after_one}.get(one, one) for one in pair)
    assert not bits.equal(torch.tensor([2.0, left], dtype=dtype), torch.tensor([2.0, right], dtype=dtype))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4)])
def test_the_same_is_the_same_whatever_its_strides(dtype, shape):
    tensor = torch.ones(shape, dtype=dtype)
    backwards = tuple(reversed(range(len(shape))))
    other = torch.ones((*reversed(shape), 2), dtype=dtype)[..., 0].permute(backwards)
    assert bits.equal(tensor, other)


def test_nan_is_itself_and_kinds_differ():
    nan = torch.tensor(math.nan)
    assert bits.equal(nan, nan.clone())
    assert not bits.equal(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
    assert not bits.equal(torch.zeros(2), torch.zeros(1, 2))
