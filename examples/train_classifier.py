"""Trains a torchvision classifier within a memory budget.

    python examples/train_classifier.py --budget 90%
    python examples/train_classifier.py --network resnet50 --batch 32 --size 224 --budget 2GiB

The pictures are drawn at random, so that nothing has to be downloaded; put your own loader into `batches`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch.nn import functional
from torchvision import models


def batches(steps: int, batch: int, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pictures whose class is how bright they are."""
    for _ in range(steps):
        labels = torch.randint(0, 10, (batch,))
        yield torch.randn(batch, 3, size, size) + labels.view(-1, 1, 1, 1) / 5, labels


def train(network: str, budget: str, steps: int, batch: int, size: int) -> list[float]:
    """The losses of all steps."""
    torch.manual_seed(0)
    model = models.get_model(network, num_classes=10)
    compiled = torch.compile(model, backend="rk", options={"budget": budget})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for pictures, labels in batches(steps, batch, size):
        loss = functional.cross_entropy(compiled(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print(f"step {len(losses)}: loss {losses[-1]:.4f}")
    return losses


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--budget", default="90%")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
