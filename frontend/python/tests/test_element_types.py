"""codegen="rk" with elements of 8-bit floats, unsigned words and complex halves."""

from __future__ import annotations

import pytest
import torch
from test_bits import equal
from test_limits import gradient

FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def agree(function, *inputs):
    return equal(gradient(function, *inputs, backend="aot_eager"), gradient(function, *inputs))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e8m0fnu], ids=str)
def test_eight_bit_floats_inside_a_step(dtype):
    assert agree(lambda x: (x.exp().to(dtype).to(torch.float32) * x).sin())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_eight_bit_floats_come_in_and_go_out(dtype):
    weight = torch.randn(8, 4).to(dtype)
    assert agree(lambda x, w: ((x @ w.float()).sin(), x.to(dtype)), weight)


def test_likes_of_eight_bit_floats_are_of_their_type():
    def function(x):
        small = x.t().to(torch.float8_e5m2)
        return x.sin() + torch.full_like(small, 1.2).t().float() * x

    assert agree(function)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned_words_inside_a_step(dtype):
    assert agree(lambda x, places: x[places.to(dtype).to(torch.int64)].sin(), torch.tensor([3, 1]))


def test_complex_halves():
    assert agree(lambda x: torch.view_as_real(torch.complex(x.half(), x.half())).float().sin())
