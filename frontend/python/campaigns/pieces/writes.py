"""Pieces that write in place: into slices, views, gathered places, inside of and outside of autograd."""

from __future__ import annotations

import torch

from campaigns.pieces.registry import piece


@piece(
    "in place",
    weight=3,
    how=("mul_", "add_", "relu_", "tanh_", "clamp_", "masked_fill_", "sub_", "div_", "exp_"),
)
def overwritten(x, how):
    y = x * 1.1
    if how in ("relu_", "tanh_", "exp_"):
        return getattr(y.clamp(-2, 2), how)() * 0.5
    if how == "clamp_":
        return y.clamp_(-1, 1)
    if how == "masked_fill_":
        return y.masked_fill_(x > 0.5, 0.0)
    return getattr(y, how)(x.detach().abs() + 0.5 if how == "div_" else x.sin())


@piece(
    "in place",
    weight=4,
    how=("column", "half", "row", "strided", "zeros", "broadcast", "list", "mask", "negative"),
)
def slices(x, how):
    rows, width = x.shape
    y = x.clone()
    if how == "column":
        y[:, 0] = x[:, 1] * 2
    elif how == "half":
        y[:, : width // 2] = x[:, width // 2 :].tanh()
    elif how == "row":
        y[0] = 0.5
    elif how == "strided":
        y[:, ::2] *= 0.5
        y[:, 1:3].mul_(2)
    elif how == "zeros":
        y = torch.zeros(rows, width, dtype=x.dtype)
        y[:, : width - 2] = x[:, 2:].sin()
    elif how == "broadcast":
        y[1:, 2:4] = x[0, 2:4]
    elif how == "list":
        y[:, [0, 3]] = x[:, [1, 2]] * 3
    elif how == "mask":
        y[x > 0] = 0.25
    else:
        y[-1, -2:] += x[0, :2]
    return torch.tanh(y) + y


@piece(
    "in place",
    weight=2,
    how=("chunk", "view", "transpose", "unbind", "diagonal", "narrow", "expand", "split"),
)
def through_views(x, how):
    y = x * 0.9
    if how == "chunk":
        y[:, : y.shape[1] // 2].add_(y.chunk(2, 1)[1].tanh())
    elif how == "view":
        y.view(-1)[:5].mul_(2)
    elif how == "transpose":
        y.t()[1].copy_(x[:, 0])
    elif how == "unbind":
        # Views of unbind may not be written by autograd's rules: select makes one by one.
        y.select(1, 2).mul_(x.select(1, 1))
    elif how == "diagonal":
        y.diagonal().fill_(0.5)
    elif how == "narrow":
        y.narrow(1, 1, 2).zero_()
    elif how == "expand":
        y += x.mean(1, keepdim=True).expand_as(x)
    else:
        part = torch.split(y, y.shape[1] // 4, 1)
        y = torch.cat([part[0], part[1].clone().mul_(part[0]), part[2], part[3]], 1)
    return torch.sin(y)


@piece(
    "in place",
    weight=2,
    how=("scatter_", "index_put_", "index_add_", "index_copy_", "index_fill_", "scatter_add_"),
)
def placed(x, how):
    rows, width = x.shape
    y = x.clone()
    first = torch.arange(rows)
    if how == "scatter_":
        y.scatter_(1, first[:, None] % width, x[:, :1] * 2)
    elif how == "index_put_":
        y.index_put_((first, first % width), x[:, 0].sin())
    elif how == "index_add_":
        y.index_add_(1, torch.tensor([0, 0, 1]), x[:, :3])
    elif how == "index_copy_":
        y.index_copy_(0, torch.tensor([1]), x[:1])
    elif how == "index_fill_":
        y.index_fill_(1, torch.tensor([2]), 0.5)
    else:
        y.scatter_add_(1, torch.zeros(rows, 2, dtype=torch.long), x[:, :2])
    return torch.tanh(y)


@piece("in place", steps=(2, 3))
def filled_in_a_loop(x, steps):
    out, state = x.new_zeros(steps, *x.shape), x
    for place in range(steps):
        state = torch.tanh(state + out[: place + 1].sum(0))
        out[place] = state
    return out.mean(0)


@piece("in place")
def accumulated(x):
    total = torch.zeros_like(x)
    for part in (x.sin(), x.tanh(), x * x.detach()):
        total += part
    total.mul_(total.clone().sigmoid())
    return total


@piece("in place")
def without_gradient(x):
    y = torch.tanh(x)
    z = y.detach()
    with torch.no_grad():
        rest = z.clone().add_(1).mul_(0.5)
    return y * rest


@piece("in place")
def written_twice(x):
    y = x.sin()
    first = y * 2
    y = y.add(1).mul_(0.5)
    y[:, :2] = first[:, :2]
    y[:, :2].add_(first[:, 2:4])
    return y + first


@piece("in place")
def swapped(x):
    y = x.clone()
    keep = y[:, 0].clone()
    y[:, 0] = y[:, 1]
    y[:, 1] = keep
    return y.tanh_()


@piece("in place")
def into_out(x):
    with torch.no_grad():
        room = torch.empty_like(x)
        torch.mul(x.detach(), 0.5, out=room)
    return x * room.sigmoid()


@piece("in place")
def set_data(x):
    y = x.detach().clone()
    y.data = y.data * 2
    return torch.sin(x * y)


@piece("shared", weight=2, how=("alias", "detach", "view", "reshape", "identity"))
def aliased(x, how):
    if how == "alias":
        y = x[:]
    elif how == "detach":
        return x + x.detach() * 0.5
    elif how == "view":
        y = x.view(x.shape[0], -1) if x.is_contiguous() else x
    elif how == "reshape":
        y = x.t().reshape(x.shape[1], -1).t()
    else:
        return x
    return y


@piece("empty", weight=2, how=("slice", "cat", "linear", "sum", "split", "index", "stack", "max"))
def empty(x, how):
    none = x[:0]
    if how == "slice":
        return torch.cat([none.sin(), x])
    if how == "cat":
        return torch.cat([x, x[:, :0]], 1).tanh()
    if how == "linear":
        return x + torch.nn.functional.linear(none, x[:1]).sum()
    if how == "sum":
        return x * (1 + none.sum())
    if how == "split":
        first, second = x.split([0, x.shape[1]], 1)
        return second + first.sum()
    if how == "index":
        return x + x[torch.zeros(0, dtype=torch.long)].mean(0).nan_to_num(0.5)
    if how == "stack":
        return x + torch.stack([none, none]).sum((0, 1))
    return x + none.new_zeros(0, 3).amax(1).sum()


@piece("broadcast", weight=2, how=("outer", "expand", "stride 0", "broadcast_to", "meshgrid"))
def broadcast(x, how):
    if how == "outer":
        return torch.tanh(x[:, :, None] * x[:, None, :]).mean(2)
    if how == "expand":
        return torch.sin(x[:1].expand(x.shape[0], -1)) + x
    if how == "stride 0":
        return (x[:, :1].expand_as(x).sin() * 2).cos() * x
    if how == "broadcast_to":
        return x * torch.broadcast_to(x.mean().tanh(), x.shape)
    a, b = torch.meshgrid(x[:, 0], x[0], indexing="ij")
    return torch.tanh(a * b) + x
