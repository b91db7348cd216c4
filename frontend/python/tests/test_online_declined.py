"""Operators that a mode, or a class of tensors, declines under a memory budget go where they belong."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import rk
from rk._online.managed import Managed


def layers(count):
    return nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(count)))


class Jagged(nn.Module):
    """A nested tensor in the middle."""

    def __init__(self):
        super().__init__()
        self.before, self.inner, self.after = layers(3), nn.Linear(16, 16), layers(3)

    def forward(self, x):
        nested = torch.nested.nested_tensor_from_jagged(self.before(x), torch.tensor([0, 2, x.shape[0]]))
        return self.after(torch.sin(self.inner(nested)).values()).square().mean()


class Plain(Jagged):
    """The same without one."""

    def forward(self, x):
        return self.after(torch.sin(self.inner(self.before(x)))).square().mean()


class Declines(TorchDispatchMode):
    """Leaves to a budget what is a budget's."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return NotImplemented if Managed in types else func(*args, **(kwargs or {}))


def gradients(net, *contexts):
    net.zero_grad()
    torch.manual_seed(1)
    with contextlib.ExitStack() as stack:
        for one in contexts:
            stack.enter_context(one)
        net(torch.randn(32, 16)).backward()
    return [one.grad.clone() for one in net.parameters()]


@pytest.mark.parametrize(("kind", "modes"), [(Jagged, ()), (Plain, (Declines,)), (Jagged, (Declines,))])
def test_a_budget_is_kept_or_refused(kind, modes):
    torch.manual_seed(0)
    net = kind()
    expected = gradients(net)
    whole = rk.memory_budget(None)
    gradients(net, whole)
    peak = int(whole.statistics()["peak_bytes"])
    kept = []
    for share in (10, 20, 30, 40, 60):
        budget = rk.memory_budget(peak * share // 100)
        try:
            found = gradients(net, budget, *(one() for one in modes))
        except rk.OutOfMemoryError:
            continue
        assert all(map(torch.equal, expected, found))
        kept.append(share)
    assert {40, 60} <= set(kept), kept
