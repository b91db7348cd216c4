"""What ``gc.freeze`` has put aside is found as everything else is: parameters, their optimizers, storages."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import rk
from rk._plan import device, living
from rk._run import group
from rk._run.parameters import Parameters


@pytest.fixture(autouse=True)
def thawed():
    """Nothing of a test stays frozen but what lives on, as before the first test."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def parameters():
    return [one for one in living.objects((torch.Tensor,)) if type(one) is nn.Parameter]


def held(one, among):
    return sum(one is other for other in among)


def test_what_is_frozen_is_found_once():
    early = nn.Linear(3, 3)
    gc.freeze()
    assert all(held(one, parameters()) == 1 for one in early.parameters())
    late = {"hidden in a dict": [nn.Linear(2, 2)]}
    assert held(late["hidden in a dict"][0].weight, parameters()) == 1
    gc.freeze()
    both = (*early.parameters(), *late["hidden in a dict"][0].parameters())
    assert all(held(one, parameters()) == 1 for one in both)
    gc.unfreeze()
    assert all(held(one, parameters()) == 1 for one in both)


def test_what_is_frozen_and_let_go_of_is_not_kept():
    layer = nn.Linear(3, 5)
    gc.freeze()
    assert held(layer.weight, parameters()) == 1
    del layer
    assert not any(one.shape == (5, 3) for one in parameters())


def test_gradients_of_a_frozen_model_are_told_from_activations():
    layer = nn.Linear(7, 7)
    gc.freeze()
    found = Parameters(torch.device("cpu"))
    found.find()

    def there():
        return sum(one.nbytes() for one in found.gradient_storages().values())

    before = there()
    layer(torch.ones(7)).sum().backward()
    assert there() - before == 4 * (49 + 7)
    assert any(one._cdata == layer.weight.untyped_storage()._cdata for one in device.storages())


def test_a_frozen_optimizer_is_found(recwarn):
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    optimizer = torch.optim.AdamW(model.parameters())
    gc.freeze()
    run = rk.compile(model, scope="device", budget="1100KB")
    run(torch.ones(8, 64)).sum().backward()
    assert not [one for one in recwarn if "no optimizer" in str(one.message)]
    (shared,) = (one for one in group.GROUPS.values() if one.asked == "1100000")
    assert optimizer in shared.optimizers
    assert shared.optimizers.to_come() >= 2 * sum(one.nbytes for one in model.parameters())


def test_wrappers_of_transforms_have_no_storage():
    def counted(x):
        """What is alive while a transform runs."""
        device.storages()
        return x.sin().sum()

    x = torch.ones(3)
    assert torch.equal(torch.func.grad(counted)(x), x.cos())
    assert torch.func.vmap(counted)(x[:, None]).shape == (3,)
