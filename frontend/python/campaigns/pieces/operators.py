"""Operators of ``torch.library``: plain, random with and without the tag, writing, with effects outside."""

from __future__ import annotations

import torch

EFFECTS: list[str] = []
"""What operators have done to the world, in order."""


@torch.library.custom_op("campaign::plain", mutates_args=())
def plain(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.sin(x * factor)


@torch.library.custom_op("campaign::plain_back", mutates_args=())
def plain_back(dy: torch.Tensor, x: torch.Tensor, factor: float) -> torch.Tensor:
    return dy * torch.cos(x * factor) * factor


@torch.library.custom_op("campaign::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    seed = torch.randint(2**31, (1,))
    return masked_by(x, seed), seed


@torch.library.custom_op("campaign::noisy_back", mutates_args=())
def noisy_back(dy: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    return masked_by(dy, seed)


def masked_by(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(int(seed)))
    return x * (drawn > 0.4).to(x.dtype)


@torch.library.custom_op("campaign::tagged", mutates_args=(), tags=[torch.Tag.nondeterministic_seeded])
def tagged(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(x.shape, dtype=x.dtype) * 0.1


@torch.library.custom_op("campaign::writing", mutates_args=("total",))
def writing(x: torch.Tensor, total: torch.Tensor) -> None:
    total.add_(x.mean(0))


@torch.library.custom_op("campaign::telling", mutates_args=())
def telling(x: torch.Tensor, name: str) -> torch.Tensor:
    EFFECTS.append(name)
    return x * 0.5


@torch.library.custom_op("campaign::stateful", mutates_args=())
def stateful(x: torch.Tensor) -> torch.Tensor:
    EFFECTS.append("stateful")
    return x + len(EFFECTS) * 0.01


plain.register_fake(lambda x, factor: torch.empty_like(x))
plain_back.register_fake(lambda dy, x, factor: torch.empty_like(dy))
noisy.register_fake(lambda x: (torch.empty_like(x), torch.empty(1, dtype=torch.int64)))
noisy_back.register_fake(lambda dy, seed: torch.empty_like(dy))
tagged.register_fake(lambda x: torch.empty_like(x))
writing.register_fake(lambda x, total: None)
telling.register_fake(lambda x, name: torch.empty_like(x))
stateful.register_fake(lambda x: torch.empty_like(x))


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


plain.register_autograd(
    lambda ctx, dy: (plain_back(dy, ctx.saved_tensors[0], ctx.factor), None), setup_context=_keep
)
noisy.register_autograd(
    lambda ctx, dy, _: noisy_back(dy, ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
)
tagged.register_autograd(lambda ctx, dy: dy * 1.0)
telling.register_autograd(lambda ctx, dy: (telling(dy, "back"), None))
stateful.register_autograd(lambda ctx, dy: dy * 1.0)
