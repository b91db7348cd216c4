"""Objects that are no tensors: what a call makes of one goes from forward to backward as PyTorch wants it."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import rk
from rk import _torch

# Until then Dynamo and AOTAutograd trace no operators on such objects, so that none is in a graph.
pytestmark = pytest.mark.skipif(
    _torch._version(torch.__version__) < (2, 15), reason="this torch traces no operators on objects"
)


class Scale:
    """What operators are given, as a process group is given to collectives."""

    def __init__(self, by):
        self.by = by


@functools.cache
def register() -> str:
    """The name of :class:`Scale` in a schema. PyTorch registers a type once in a process, and the fixture of
    a module may be made more than once: a worker of pytest-xdist may come back to this file.
    """
    from torch._library.opaque_object import get_opaque_type_name, register_opaque_type
    from torch._opaque_base import OpaqueBase

    global Scale
    Scale = type("Scale", (OpaqueBase,), dict(vars(Scale)))
    register_opaque_type(Scale, typ="reference")
    return get_opaque_type_name(Scale)


def scaled(x, scale):
    return x * scale.by


def doubled(x, scale):
    return torch.ops.rk_objects.scaled(x, torch.ops.rk_objects.twice(scale))


def measured(x, scale):
    return torch.ops.rk_objects.scaled(x, torch.ops.rk_objects.like(x, scale))


def by_scaled(ctx, dy):
    """Of a scale of one, so that backward needs the object only where it runs the operator again."""
    return dy.clone(), None


@pytest.fixture(scope="module", autouse=True)
def library():
    name = register()
    library = torch.library.Library("rk_objects", "DEF")
    library.define(f"twice({name} scale) -> {name}")
    library.define(f"scaled(Tensor x, {name} scale) -> Tensor")
    library.define(f"like(Tensor x, {name} scale) -> {name}")
    library.define(f"doubled(Tensor x, {name} scale) -> Tensor")
    library.define(f"measured(Tensor x, {name} scale) -> Tensor")
    library.impl("twice", lambda scale: Scale(2 * scale.by), "CompositeExplicitAutograd")
    library.impl("like", lambda x, scale: Scale(2 * scale.by), "CompositeExplicitAutograd")
    library.impl("scaled", scaled, "CompositeExplicitAutograd")
    torch.library.register_fake("rk_objects::twice", twice_faked, lib=library)
    torch.library.register_fake("rk_objects::like", lambda x, scale: twice_faked(scale), lib=library)
    torch.library.register_fake("rk_objects::scaled", lambda x, scale: torch.empty_like(x), lib=library)
    torch.library.register_autograd("rk_objects::scaled", by_scaled, lib=library)
    library.impl("doubled", doubled, "CompositeImplicitAutograd")
    library.impl("measured", measured, "CompositeImplicitAutograd")
    yield
    library._destroy()


def twice_faked(scale):
    from torch._library.fake_class_registry import maybe_unwrap_fake_script_object

    return Scale(2 * maybe_unwrap_fake_script_object(scale).by)


class Net(nn.Module):
    def __init__(self, measures=False):
        super().__init__()
        self.measures = measures
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x, scale):
        double = torch.ops.rk_objects.measured if self.measures else torch.ops.rk_objects.doubled
        for layer in self.layers:
            x = double(layer(x).tanh(), scale).sin()
        return x.sum()


def gradients(run, net, scale):
    """Of three forward passes that are open at once."""
    net.zero_grad()
    torch.manual_seed(1)
    losses = [run(torch.randn(4, 8), scale) for _ in range(3)]
    for loss in losses:
        loss.backward()
    return [one.grad.clone() for one in net.parameters()]


@pytest.mark.parametrize("budget", ["60%", "70%", "100%"])
def test_what_a_call_makes_of_an_object_is_saved_by_every_plan(budget):
    net, scale = Net(), Scale(0.5)
    expected = gradients(net, net, scale)
    rk.allow_recompute("rk_objects::scaled")
    run = rk.compile(net, budget=budget, on_infeasible="best", fullgraph=True)
    for _ in range(4):
        assert all(map(torch.equal, expected, gradients(run, net, scale)))


def test_an_object_that_is_made_of_tensors_and_read_again_is_refused():
    net, scale = Net(measures=True), Scale(0.5)
    rk.allow_recompute("rk_objects::scaled")
    with pytest.raises(Exception, match="makes an object that is no tensor out of tensors") as failed:
        gradients(rk.compile(net, budget="60%", fullgraph=True), net, scale)
    assert isinstance(failed.value.inner_exception, rk.CompileError)
