"""torchvision's networks as one ``nn.Sequential`` each, for ``rk.Checkpointable``.

``rk.models.resnet18()`` has the parameters of ``torchvision.models.resnet18()`` under the same names, and
computes the same. There are all of the families below that torchvision has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

FAMILIES = ("alexnet", "densenet", "resnet", "resnext", "vgg", "wide_resnet")


def __getattr__(name: str) -> Callable[..., nn.Sequential]:
    if name.startswith(FAMILIES):
        try:
            from torchvision import models
        except ImportError:
            raise AttributeError(f"rk.models.{name} needs torchvision") from None
        build = getattr(models, name, None)
        if callable(build):
            return lambda *args, **kwargs: sequential(build(*args, **kwargs))
    raise AttributeError(f"rk.models has no '{name}'; there are torchvision's {', '.join(FAMILIES)}")


def sequential(network: nn.Module) -> nn.Sequential:
    """A network of these families as a sequence; the parameters are shared. Raises TypeError for others."""
    return nn.Sequential(OrderedDict(_stages(network)))


def _stages(network: nn.Module) -> Iterator[tuple[str, Any]]:
    children = dict(network.named_children())
    if list(children) == ["features", "classifier"]:  # DenseNet pools between the two
        yield "features", children["features"]
        yield "relu", nn.ReLU()
        yield "avgpool", nn.AdaptiveAvgPool2d((1, 1))
    elif "layer4" in children:
        head = children.pop("fc")
        yield from children.items()
        yield "flatten", nn.Flatten()
        yield "fc", head
        return
    elif list(children) == ["features", "avgpool", "classifier"]:
        yield "features", children["features"]
        yield "avgpool", children["avgpool"]
    else:
        raise TypeError(f"{type(network).__name__} is of no family that rk.models knows")
    yield "flatten", nn.Flatten()
    yield "classifier", children["classifier"]
