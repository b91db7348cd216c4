"""codegen="rk" under hooks on saved tensors: whatever they do, backward still belongs to its forward."""

from __future__ import annotations

import functools
import gc
import pickle

import pytest
import torch
from test_bits import equal
from test_hard_places import Chain, floats
from test_native import Perceptron, compiled, programs  # noqa: F401 - a fixture
from torch import nn
from torch.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

import rk

HOOKS = torch.autograd.graph.saved_tensors_hooks


def both(around, make=Chain):
    """Losses, gradients and buffers of two steps, eager and compiled; ``around`` runs the model."""
    found = []
    for run in (lambda model: model, lambda model: compiled(model, budget="85%")):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = make()
        function, results = run(model), []
        for _ in range(2):
            loss = around(function, *floats()).square().mean()
            loss.backward()
            results.append(loss.detach())
        found.append([*results, *(one.grad for one in model.parameters()), *model.buffers()])
    return found


def in_hooks(pack, unpack):
    def run(function, *inputs):
        with HOOKS(pack, unpack):
            return function(*inputs)

    return run


def on_cpu(function, *inputs):
    with torch.autograd.graph.save_on_cpu():
        return function(*inputs)


@pytest.mark.parametrize(
    "around",
    [
        in_hooks(lambda one: one, lambda one: one),
        in_hooks(lambda one: one.clone(), lambda one: one),
        in_hooks(lambda one: one.detach(), lambda one: one),
        in_hooks(pickle.dumps, pickle.loads),
        in_hooks(lambda one: (one.double(), one.dtype), lambda kept: kept[0].to(kept[1])),
        in_hooks(
            lambda one: one.t() if one.dim() == 2 else one,
            lambda one: one.t().clone() if one.dim() == 2 else one,
        ),
        on_cpu,
    ],
    ids=["same", "clone", "detach", "pickle", "other type", "other strides", "save_on_cpu"],
)
def test_what_is_saved_may_be_replaced(around):
    assert equal(*both(around))


def test_running_statistics_and_masks_under_hooks():
    assert equal(*both(in_hooks(lambda one: one.clone(), lambda one: one), Perceptron))


@pytest.mark.parametrize("early", [True, False])
def test_checkpoint_around_the_model_runs_forward_again(early, programs):  # noqa: F811
    def around(function, x):
        with set_checkpoint_early_stop(early):
            return checkpoint(function, x, use_reentrant=False)

    assert equal(*both(around, lambda: Chain(lambda: nn.Dropout(0.3))))
    assert programs and all(not one._busy and len(one._idle) == 1 for one in programs)


def test_checkpoint_holds_no_arena_between_forward_and_backward(programs):  # noqa: F811
    function = compiled(Chain(), budget="85%")
    loss = checkpoint(function, *floats(), use_reentrant=False).sum()
    (program,) = programs
    assert not program._busy, "what the checkpoint has dropped is in no arena"
    loss.backward()
    assert not program._busy and len(program._idle) == 1


def test_a_reentrant_checkpoint_around_the_model():
    def around(function, x):
        return checkpoint(function, x.requires_grad_(), use_reentrant=True)

    assert equal(*both(around))


def test_a_selective_checkpoint_around_the_model():
    """It looks into compiled code and keeps what it sees for its second run: nothing of an arena, and nothing
    of the rehearsal.
    """
    products = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    contexts = functools.partial(create_selective_checkpoint_contexts, products)

    def around(function, x):
        return checkpoint(function, x, use_reentrant=False, context_fn=contexts)

    assert equal(*both(around, lambda: Chain(lambda: nn.Dropout(0.3))))


def test_under_hooks_a_forward_without_backward_gives_its_arena_free(programs):  # noqa: F811
    function = compiled(Chain(), budget="85%")
    with HOOKS(lambda one: one.clone(), lambda one: one):
        loss = function(*floats())
    (program,) = programs
    assert len(program._busy) == 1
    del loss
    gc.collect()
    assert not program._busy and len(program._idle) == 1


def test_backward_reads_what_the_hooks_give_back():
    """Saved inputs that change meanwhile, which PyTorch does not notice where there are hooks."""

    def around(function, x):
        with HOOKS(lambda one: one.clone(), lambda one: one):
            loss = function(x)
        with torch.no_grad():
            x.mul_(3)
        return loss

    assert equal(*both(around))


def test_mutation_that_autograd_allows():
    def around(function, x):
        weight = next(iter(function.parameters()))
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            loss = function(x).square().mean()
            with torch.no_grad():
                weight.mul_(2)
            loss.backward()
            with torch.no_grad():
                weight.mul_(0.5)
        return loss.detach().requires_grad_()

    # Dynamo lets PyTorch run by itself under the mode that this is, and no budget governs it.
    with pytest.raises(rk.CompileError, match="governs nothing"):
        both(around)


def test_several_runs_under_hooks_keep_apart():
    def around(function, x):
        results = []
        for scale in (1.0, 2.0, 3.0):
            with HOOKS(lambda one: one.clone(), lambda one: one):
                results.append(function(x * scale))
        return results[2] + results[0] * results[1]

    assert equal(*both(around))


def test_a_hook_that_changes_types_is_named():
    function = compiled(Chain(), budget="85%")
    with HOOKS(lambda one: one.half(), lambda one: one):
        loss = function(*floats()).sum()
    with pytest.raises(rk.ExecutionError, match="a hook on saved tensors.*codegen='fx'"):
        loss.backward()
    function(*floats()).sum().backward()


def test_hooks_that_are_graphs_are_refused():
    pack, unpack = (torch.fx.symbolic_trace(one) for one in (lambda x: x.clone(), lambda x: x.clone()))
    with (
        pytest.raises(Exception, match="hooks on saved tensors are graphs.*codegen='fx'"),
        HOOKS(pack, unpack),
    ):
        compiled(Chain(), budget="85%")(*floats()).sum().backward()


def test_compiled_autograd_around_forward_and_backward():
    def around(function, x):
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            loss = function(x).square().mean()
            loss.backward()
        return loss.detach().requires_grad_()

    assert equal(*both(around))
