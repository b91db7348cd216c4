"""The parameters of a stage, in a graph of its own.

Autograd knows a stage as one operator whose inputs are the stage's input and its parameters, so that what
others see of a parameter (hooks, ``.grad``, ``torch.autograd.grad``, other uses of it) is as without a chain.
The graph inside of that operator is made with leaves that stand in for the parameters: they show the same
memory, have the same version counter, and nobody's hooks.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator

import torch
from torch import nn


def trained(module: nn.Module) -> list[torch.Tensor]:
    """The parameters of a module that ask for a gradient, each once. Those of a module of TorchScript are not
    in a dict, and get their gradients themselves.
    """
    found = (one for _, registry in _registries(module) for one in registry.values())
    return list({id(one): one for one in found if one is not None and one.requires_grad}.values())


def _registries(module: nn.Module) -> Iterator[tuple[nn.Module, dict[str, torch.Tensor | None]]]:
    for one in module.modules():
        registry = vars(one).get("_parameters")
        if isinstance(registry, dict):
            yield one, registry


@contextlib.contextmanager
def in_place_of(module: nn.Module, parameters: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """While this lasts, leaves are in the places of these parameters; gives them in the same order. All other
    parameters are frozen, as they are when the chain begins, whatever the caller does afterwards.
    """
    leaves = [one.detach().requires_grad_() for one in parameters]
    known = {id(one): leaf for one, leaf in zip(parameters, leaves, strict=True)}
    others = {id(one): one for one in trained(module) if id(one) not in known}
    known |= {key: one.detach() for key, one in others.items()}
    owners = [
        (owner, registry, {name: one for name, one in registry.items() if id(one) in known})
        for owner, registry in _registries(module)
    ]
    owners = [one for one in owners if one[2]]
    for owner, registry, own in owners:
        registry.update({name: known[id(one)] for name, one in own.items()})
        _tell_recurrent(owner)
    try:
        yield leaves
    finally:
        for owner, registry, own in owners:
            # What the stage itself has put there meanwhile stays.
            leaf_of = {name: known[id(one)] for name, one in own.items()}
            registry.update({name: own[name] for name, leaf in leaf_of.items() if registry.get(name) is leaf})
            _tell_recurrent(owner)


def _tell_recurrent(owner: nn.Module) -> None:
    """Recurrent layers keep a list of their weights, and lay them out anew if one of them is another."""
    if isinstance(owner, nn.RNNBase):
        weights = [getattr(owner, name, None) for name in owner._flat_weights_names]
        owner._flat_weights = weights
        owner._flat_weight_refs = [None if one is None else weakref.ref(one) for one in weights]
