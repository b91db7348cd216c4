"""More places where recomputation goes wrong easily, beside those of test_hard_places.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from training import equal, same_bits, train

import rk


def batches(*shape, count=1):
    """A function from the step to its inputs."""

    def of(step):
        generator = torch.Generator().manual_seed(step)
        return tuple(torch.randn(*shape, generator=generator) for _ in range(count))

    return of


def mlp(width=64, depth=6, *between):
    layers = [
        nn.Sequential(nn.Linear(width, width), nn.GELU(), *(make() for make in between)) for _ in range(depth)
    ]
    return nn.Sequential(*layers)


def test_dropout_inside_of_attention():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(32, 96) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                q, k, v = layer(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
                y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)
                x = x + y.transpose(1, 2).flatten(2)
            return x

    assert same_bits(Attention(), batches(4, 32, 32), budget="60%")


def test_gradients_of_inputs():
    model = rk.compile(mlp(32, 4), budget="80%")
    x = torch.randn(64, 32, requires_grad=True)
    model(x).sum().backward()
    twin = x.detach().clone().requires_grad_()
    model._orig_mod(twin).sum().backward()
    assert torch.equal(x.grad, twin.grad)


class Checkpointed(nn.Module):
    """User checkpoints, plain or selective, around dropout."""

    def __init__(self, context_fn=None):
        super().__init__()
        self.blocks = nn.ModuleList(mlp(32, 2, lambda: nn.Dropout(0.3)) for _ in range(3))
        self.extra = {} if context_fn is None else {"context_fn": context_fn}

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, **self.extra)
        return x


def keep_products():
    def policy(_context, operator, *_args, **_kwargs):
        keep = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


@pytest.mark.parametrize("context", [None, keep_products])
def test_checkpoints_of_the_user(context):
    assert same_bits(Checkpointed(context), batches(64, 32), budget="80%")


def test_bfloat16():
    assert same_bits(mlp(64, 5).bfloat16(), lambda step: (torch.ones(32, 64).bfloat16() * step,))


def test_backward_before_the_next_forward_and_after():
    model = mlp(32, 3, lambda: nn.Dropout(0.5))
    run = rk.compile(model, budget="90%", on_infeasible="best")
    torch.manual_seed(1)
    first, second = run(torch.ones(32, 32)).sum(), run(torch.ones(32, 32)).sum()
    second.backward()
    first.backward()
    crossed = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    torch.manual_seed(1)
    plain = torch.compile(model, backend="aot_eager")
    first, second = plain(torch.ones(32, 32)).sum(), plain(torch.ones(32, 32)).sum()
    second.backward()
    first.backward()
    assert equal(crossed, [one.grad for one in model.parameters()])


def test_the_same_seed_gives_the_same_training():
    model, given = mlp(64, 5, lambda: nn.Dropout(0.5)), batches(64, 64)
    runs = [train(model, given, True, budget="70%", on_infeasible="best") for _ in range(2)]
    assert equal(*runs)
