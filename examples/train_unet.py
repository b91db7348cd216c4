"""Trains a U-Net, whose skip connections hold early activations for long, within a memory budget.

    python examples/train_unet.py --budget 60%

It learns to find the bright disc in noise; nothing has to be downloaded.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional


def double(inside: int, outside: int) -> nn.Sequential:
    """Two convolutions with batch norm."""
    layers: list[nn.Module] = []
    for channels in (inside, outside):
        layers += [nn.Conv2d(channels, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Ronneberger et al., 2015, with as many levels as asked for."""

    def __init__(self, channels: int = 16, levels: int = 3) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([1, *widths], widths, strict=False))
        self.bottom = double(widths[-1], 2 * widths[-1])
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in reversed(widths))
        self.up = nn.ModuleList(double(2 * width, width) for width in reversed(widths))
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A picture to a map of the same size."""
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([skips.pop(), grow(x)], 1))
        return self.head(x)


def discs(batch: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a disc in it, and where the disc is."""
    centre = torch.rand(batch, 2, 1, 1) * size
    rows, columns = torch.arange(size).view(1, -1, 1), torch.arange(size).view(1, 1, -1)
    inside = ((rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < (size / 5) ** 2).float().unsqueeze(1)
    return inside + 0.5 * torch.randn_like(inside), inside


def train(budget: str, steps: int, batch: int, size: int, channels: int) -> list[float]:
    """The losses of all steps."""
    torch.manual_seed(0)
    model = UNet(channels)
    compiled = torch.compile(model, backend="rk", options={"budget": budget})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        pictures, wanted = discs(batch, size)
        loss = functional.binary_cross_entropy_with_logits(compiled(pictures), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print(f"step {len(losses)}: loss {losses[-1]:.4f}")
    return losses


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=16)
    train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
