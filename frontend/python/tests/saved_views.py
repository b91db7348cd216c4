"""Programs whose backward pass reads one storage through several views.

Each is a function of an input and two square parameters, all of which may be trained; ``CASES`` has them by
name. Products read their operands again, so what a program multiplies is saved.
"""

from __future__ import annotations

import torch
from torch.nn import functional

WIDTH, ROWS = 16, 8


def _products(*factors):
    """Every factor is saved, for the gradient of the next one."""
    total = 0.0
    for one, other in zip(factors, factors[1:] + factors[:1], strict=True):
        total = total + (one.reshape(-1).sin() * other.reshape(-1)).sum()
    return total


def transposed(x, a, b):
    y = x @ a
    return (y.t() @ (y @ b)).square().sum() + (y.view(-1).sin() * y.view(-1)).sum()


def attention(x, a, b):
    q, k, v = (part.view(1, ROWS, 4, 4).transpose(1, 2) for part in (x @ a, x @ b, x @ a.t()))
    y = functional.scaled_dot_product_attention(q, k, v)
    flat = y.transpose(1, 2).flatten(2)
    return (flat @ b).sin().sum() + (y.square() * y).sum() + (flat * flat.cos()).sum()


def splits(x, a, b):
    y = x @ a
    left, right = y.split(WIDTH // 2, 1)
    rows = y.unbind(0)
    return (left * right).sin().sum() + (rows[0] * rows[3] * rows[-1].cos()).sum() + (y @ b * y).sum()


def chunks_of_views(x, a, b):
    y = (x @ a).t()
    first, second, third, fourth = y.chunk(4)
    return (first * third).sum() + (second.t() @ fourth).sin().sum() + (first.t() @ b[:4]).square().sum()


def selected(x, a, b):
    wide = (x @ a).exp()
    return (wide[2] * wide[2:3].sin()).sum() + (wide[:, 1] * wide[:, 3]).sum() + (wide[5] @ b).square().sum()


def strided(x, a, b):
    y = x @ a
    every = y.as_strided((4, 3), (2 * WIDTH, 5), 2)
    other = y.as_strided((4, 3), (WIDTH, 1), 7)
    return (every * other.sin()).sum() + (every.square() * every).sum() + (y @ b).sin().sum()


def windows(x, a, b):
    y = x @ a
    seen = y.unfold(1, 4, 2)
    return (
        (seen * seen.flip(-1).sin()).sum()
        + (seen.diagonal(0, 0, 1) * y[:7, :4].t().sin()).sum()
        + (y @ b).sum()
    )


def expanded(x, a, b):
    y = (x @ a)[:, :1]
    wide = y.expand(ROWS, WIDTH)
    return (wide * wide.sin() @ b).sum() + (y.squeeze(1) * y.squeeze(1)).sin().sum()


def detached(x, a, b):
    y = x @ a
    still = y.detach()
    return (
        (y * still.t().t().sin()).sum() + (still.view(-1) * y.flatten()).cos().sum() + (y @ b * still).sum()
    )


def complex_numbers(x, a, b):
    y = torch.view_as_complex((x @ a).view(ROWS, -1, 2))
    turned = torch.view_as_complex((x @ b).view(ROWS, -1, 2))
    parts = torch.view_as_real(y * turned)
    return (parts.square() * parts).sum() + (y.real * y.imag.sin()).sum() + (y.conj() * turned * y).real.sum()


def negative(x, a, b):
    y = torch.view_as_complex((x @ a).view(ROWS, -1, 2))
    return (y.conj().imag * y.imag.sin()).sum() + (y.conj().imag @ b[:8]).square().sum()


def bits(x, a, b):
    y = x @ a
    words = y.detach().view(torch.int64 if y.dtype == torch.float64 else torch.int32)
    odd = (words & 1).to(y.dtype)
    return (y * odd * y.t().sin().t()).sum() + (y @ b * odd).square().sum()


def images(x, a, b):
    image = (x @ a).view(1, ROWS, 4, 4).contiguous(memory_format=torch.channels_last)
    kernel = b[:ROWS, :ROWS].reshape(ROWS, ROWS, 1, 1)
    y = functional.conv2d(image, kernel)
    return (y * y.permute(0, 2, 3, 1).sin().permute(0, 3, 1, 2)).sum() + (y[0, 1:] * y[0, :-1]).cos().sum()


def written(x, a, b):
    y = x @ a
    first = (y * y.t().sin().t()).sum()
    y = y.clone()
    y[:, ::2].mul_(2)
    y[1] = first
    return first + (y.t() @ y).square().sum() + (y @ b * y).sum()


def parameters(x, a, b):
    return (
        (x @ a @ a.t() * (x @ b.t())).sin().sum()
        + (a[0] * a[:, 0].sin()).sum()
        + (a.view(-1) * a.flatten().cos()).sum()
    )


def twice(x, a, b):
    """The same product is made two times, and seen in different ways."""
    one, other = (x @ a).sin(), (x @ a).sin()
    return (one.t() @ (other.view(ROWS, -1) @ b)).square().sum() + (other.flatten() * one.t().flatten()).sum()


def handed_out(x, a, b):
    y = x @ a
    return (y @ b * y.sin()).sum() + (y.t()[1:] * y.t()[:-1]).sum(), y, y.t(), y[1:], y.detach().view(-1)


CASES = {
    one.__name__: one
    for one in (
        transposed, attention, splits, chunks_of_views, selected, strided, windows, expanded, detached,
        complex_numbers, negative, bits, images, written, parameters, twice, handed_out,
    )
}  # fmt: skip


def arguments(dtype=torch.float64):
    """An input and two parameters."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(rows, WIDTH, generator=generator, dtype=dtype) for rows in (ROWS, WIDTH, WIDTH)]
    return [(one / 4).requires_grad_() for one in made]


def gradients(run, given):
    """The first result, everything else that is handed out, and the gradients of a program."""
    results = run(*given)
    loss, *others = results if isinstance(results, tuple) else (results,)
    found = torch.autograd.grad(loss, given)
    return [loss.detach(), *(one.detach() for one in others), *found]
