"""Training the same model twice, with and without rk, and comparing all bits."""

from __future__ import annotations

import copy

import torch


def train(model, batches, compiled, *, steps=3, loss=None, backend="rk", **options):
    """Losses, parameters, gradients and buffers after some steps from the same seed."""
    torch._dynamo.reset()
    model = copy.deepcopy(model)
    run = model
    if compiled:
        extra = {"options": {"time_limit": "1s", **options}} if backend == "rk" else {}
        run = torch.compile(model, backend=backend, **extra)
    loss = loss or (lambda output: output.float().square().mean())
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05)
    losses = []
    torch.manual_seed(7)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(run(*batches(step)))
        value.backward()
        optimizer.step()
        losses.append(value.detach().clone())
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    return [*losses, *model.parameters(), *gradients, *model.buffers()]


def equal(left, right):
    assert len(left) == len(right)
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def same_bits(model, batches, budget="75%", **about):
    """The model trains to the same bits as through ``aot_eager``."""
    plain = train(model, batches, True, backend="aot_eager", **about)
    planned = train(model, batches, True, budget=budget, on_infeasible="best", **about)
    return equal(plain, planned)
