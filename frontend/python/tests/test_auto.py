"""Budget ``auto`` in scope ``activations``: what is free, less what gradients and optimizers will take."""

from __future__ import annotations

import gc

import torch
from test_runs import Tower, by_blocks, equal, ids

from rk._plan import device as devices
from rk._plan import measure
from rk._run import group

CPU = torch.device("cpu")


def trained(compiled, capacity=None, monkeypatch=None, steps=4):
    """The peak of a training loop with all that stands, and the parameters that it leaves."""
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    model = Tower()
    standing = sum(one.nbytes for one in model.parameters())
    if capacity is not None:
        others = sum({one._cdata: one.nbytes() for one in devices.storages()}.values()) - standing
        monkeypatch.setenv("RK_CPU_MEMORY", str(capacity + others))
    optimizer = torch.optim.AdamW(model.parameters())
    compiled(model)
    with measure.addresses(CPU) as seen:
        for place in range(steps):
            model(ids(place)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return standing + seen.peak([]), [one.detach() for one in model.parameters()]


def test_layers_share_what_is_free_and_leave_room_for_gradients_and_optimizer(monkeypatch):
    peak, bits = trained(by_blocks())
    capacity = int(0.8 * peak)
    found, same = trained(by_blocks(budget="auto"), capacity, monkeypatch)
    assert equal(bits, same)
    assert 0.85 * capacity <= found <= capacity
    (shared,) = group.GROUPS.values()
    gradients = sum(one.nbytes for one in Tower().parameters())
    assert int(shared.asked) <= capacity - 4 * gradients
