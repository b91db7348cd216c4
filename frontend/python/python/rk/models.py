"""torchvision's networks as one ``nn.Sequential`` each, for ``rk.Checkpointable``.

``rk.models.resnet18()`` has the parameters of ``torchvision.models.resnet18()`` under the same names, and
computes the same. There are all of the families below that torchvision has.

A sequence has one way through and one result: ``inception_v3`` and ``googlenet`` come without their auxiliary
classifiers, which leave in the middle. With them, ``rk.compile`` and ``rk.Rockmate`` take torchvision's own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

__all__ = ["FAMILIES", "sequential"]

FAMILIES: tuple[str, ...] = (
    *("alexnet", "densenet", "googlenet", "inception", "resnet", "resnext", "vgg", "wide_resnet"),
)
"""How the names of torchvision's functions begin that this module has, too."""
_AUXILIARY = ("AuxLogits", "aux1", "aux2")
"""The classifiers that leave a network in the middle."""


def __getattr__(name: str) -> Callable[..., nn.Sequential]:
    if name.startswith(FAMILIES):
        try:
            from torchvision import models
        except ImportError:
            raise AttributeError(f"rk.models.{name} needs torchvision") from None
        build = getattr(models, name, None)
        if callable(build):
            if name.startswith(("googlenet", "inception")):
                return lambda **kwargs: sequential(_straight(build, **kwargs))
            return lambda *args, **kwargs: sequential(build(*args, **kwargs))
    raise AttributeError(f"rk.models has no '{name}'; there are torchvision's {', '.join(FAMILIES)}")


def __dir__() -> list[str]:
    try:
        from torchvision import models
    except ImportError:
        return sorted(__all__)
    builders = (one for one in vars(models) if one.startswith(FAMILIES) and callable(getattr(models, one)))
    return sorted({*__all__, *builders})


def sequential(network: nn.Module) -> nn.Sequential:
    """A network of these families as a sequence.

    Args:
        network: One of torchvision's networks; its parameters are shared, not copied.

    Returns:
        The stages of the network under the names that they have in it.

    Raises:
        TypeError: The network is of another family, or has classifiers that leave it in the middle.
    """
    return nn.Sequential(OrderedDict(_stages(network)))


def _straight(build: Callable[..., Any], **kwargs: Any) -> Any:
    """An Inception network without auxiliary classifiers, unless they are asked for."""
    if kwargs.get("weights") is None:
        # How torchvision begins, without its warning that it will begin otherwise one day.
        kwargs = {"aux_logits": False, "init_weights": True, **kwargs}
    network = build(**kwargs)
    if not kwargs.get("aux_logits"):
        network.aux_logits = False
        for name in _AUXILIARY:
            setattr(network, name, None)
    return network


class _Input(nn.Module):
    """The change of channels with which a network begins that was trained on other ones."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self._change = change

    def forward(self, x: Any) -> Any:
        return self._change(x)


def _stages(network: Any) -> Iterator[tuple[str, Any]]:
    children = dict(network.named_children())
    if list(children) == ["features", "classifier"]:  # DenseNet pools between the two
        yield "features", children["features"]
        yield "relu", nn.ReLU()
        yield "avgpool", nn.AdaptiveAvgPool2d((1, 1))
    elif "layer4" in children or hasattr(network, "transform_input"):
        if leaving := [name for name in _AUXILIARY if name in children]:
            raise TypeError(
                f"{type(network).__name__} has classifiers that leave it in the middle "
                f"({', '.join(leaving)}), and a sequence has one result: build it with aux_logits=False, or "
                "take rk.compile or rk.Rockmate, which hold all of it"
            )
        head = children.pop("fc")
        if getattr(network, "transform_input", False):
            yield "transform_input", _Input(network._transform_input)
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
