"""What a call puts aside to become a checkpoint later on."""

from __future__ import annotations

import types

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from rk._run.less import LITTLE, Copies, Lent, Unsaved

KEY = "node", "clone"


def lent(argument, place=0):
    with FakeTensorMode() as mode:
        return Lent.of(KEY, place, mode.from_tensor(argument))


ARGUMENTS = [
    torch.randn(7),
    torch.randn(()),
    torch.randn(0),
    torch.randn(3, 4).t(),
    torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    torch.randn(9)[4:7],
    torch.randn(5, dtype=torch.complex64),
    torch.randn(5).bfloat16(),
    torch.randn(5) > 0,
    torch.nn.Parameter(torch.randn(3, 2)),
]


@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda one: f"{one.dtype}-{list(one.shape)}")
def test_a_copy_has_the_bits_and_the_strides_that_its_argument_had(argument):
    copies, before = Copies([lent(argument, 1)]), argument.detach().clone()
    with torch.no_grad():
        taken = copies.taken([None, argument], aside=True)
        argument.data.zero_()
        real = copies.apart(taken, {KEY})[KEY]
    assert torch.equal(real, before) and real.stride() == argument.stride()
    assert not copies.apart(taken, set()), "only what is wanted takes memory"


LAZY = [torch.randn(3, dtype=torch.complex64).conj(), torch.randn(3)._neg_view()]


@pytest.mark.parametrize("argument", LAZY, ids=["conjugate", "negative"])
def test_memory_that_does_not_have_the_values_is_not_copied(argument):
    assert lent(argument) is None


def test_zeros_without_memory_are_copied_as_zeros():
    argument = torch._efficientzerotensor(3)
    copies = Copies([lent(argument)])
    assert torch.equal(copies.apart(copies.taken([argument], aside=True), {KEY})[KEY], torch.zeros(3))


@pytest.mark.parametrize(("budget", "is_copied"), [(400 * LITTLE, True), (400 * LITTLE - 1, False)])
def test_a_graph_alone_copies_no_more_than_a_part_of_its_budget(budget, is_copied):
    saves_nothing = types.SimpleNamespace(places=frozenset())
    unsaved = Unsaved(saves_nothing, [lent(torch.randn(100))], [], budget)
    assert bool(unsaved.copies.keys) == is_copied
