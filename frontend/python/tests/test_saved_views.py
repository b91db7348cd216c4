"""What forward makes and leaves for backward is one tensor per storage, and what is needed later is not
overwritten.
"""

from __future__ import annotations

import pytest
import saved_views
import torch
from torch import nn
from torch.nn import functional

from rk._codegen import program
from rk._graph import joint, normalize

LEAST = {"budget": "60%", "on_infeasible": "best"}


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="rk", fullgraph=True, options={**LEAST, **options})


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("name", saved_views.CASES)
def test_every_storage_is_saved_once(name):
    function = saved_views.CASES[name]
    expected = saved_views.gradients(function, saved_views.arguments())
    storages = []

    def pack(saved):
        storages.append(saved.untyped_storage().data_ptr())
        return saved

    given = saved_views.arguments()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        found = saved_views.gradients(compiled(function), given)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-14)
    # Nothing of the caller's is ever overwritten, and views of it are saved as they are.
    callers = {one.untyped_storage().data_ptr() for one in given}
    made = [storage for storage in storages if storage not in callers]
    assert made and len(set(made)) == len(made)


def test_views_of_what_is_made_twice_share_the_storage_that_is_left():
    seen = []

    def read(gm, *_, num_fwd_outputs, **__):
        normalize.normalize(gm.graph, num_fwd_outputs)
        seen.append(gm.graph)
        raise NotImplementedError

    from torch._dynamo.backends.common import aot_autograd

    run = torch.compile(saved_views.twice, backend=aot_autograd(fw_compiler=None, partition_fn=read))
    with pytest.raises(Exception, match="NotImplementedError"):
        run(*saved_views.arguments())
    views = [node for node in seen[0].nodes if node.target is torch.ops.aten.view.default]
    assert views
    for view in views:
        assert joint.storage_of(view.meta["val"]) == joint.storage_of(view.args[0].meta["val"])


class SharedAttention(nn.Module):
    """The result of attention is saved by itself and as two views of it, one of them for an adapter."""

    def __init__(self, width=64):
        super().__init__()
        self.qkv, self.base = nn.Linear(width, 3 * width), nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 8, bias=False), nn.Linear(8, width, bias=False)
        self.register_buffer("mask", (torch.rand(8, 16, width) > 0.3).float())

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return torch.sin(self.base(y) + self.up(self.down(y * self.mask))).square().sum()


@pytest.mark.filterwarnings("ignore:rk. no schedule")
def test_inductor_overwrites_nothing_that_is_read_later():
    # In single precision: Inductor cannot run this attention in double.
    model, x = SharedAttention(), torch.randn(8, 16, 64)
    trained = [one for one in model.parameters() if one.requires_grad]
    expected = torch.autograd.grad(model(x), trained)
    found = torch.autograd.grad(compiled(model, codegen="inductor", budget="80%")(x), trained)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Kept(torch.autograd.Function):
    """Keeps a view on ctx, where autograd does not check that it stays the same, or saves it."""

    @staticmethod
    def forward(ctx, x, scale, is_saved):
        ctx.view = scale.t()
        ctx.is_saved = is_saved
        if is_saved:
            ctx.save_for_backward(scale[0])
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        factor = gradient[:, None] * ctx.view[:, 0]
        if ctx.is_saved:
            factor = factor * ctx.saved_tensors[0]
        return factor.sum(1), None, None


@pytest.mark.parametrize("keeps_code", [True, False], ids=["code on disk", "graphs"])
def test_what_is_checked_is_what_autograd_would_check(keeps_code, monkeypatch):
    if not keeps_code:
        monkeypatch.setattr(program, "suits", lambda step: False)

    def run(is_saved):
        x, scale = torch.ones(8, requires_grad=True), torch.ones(2, 3)
        loss = compiled(lambda x, scale: Kept.apply(torch.tanh(x), scale, is_saved).sum())(x, scale)
        scale.fill_(3.0)
        loss.backward()
        return x.grad

    torch.testing.assert_close(run(False), torch.full((8,), 9.0) * (1 - torch.tanh(torch.ones(8)) ** 2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(True)
