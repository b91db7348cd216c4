"""Around ``rk.Checkpointable``: what others do to parameters, modules and gradients has the effect that it
has without a chain, or is refused.
"""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn
from training import equal

import rk

SAMPLE = torch.linspace(-1, 1, 128 * 32).reshape(128, 32)


def blocks(*more, count=4):
    layers = (nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU(), *more) for _ in range(count))
    return nn.Sequential(*layers)


def tied():
    shared, act = nn.Linear(32, 32), nn.Tanh()
    return nn.Sequential(shared, act, nn.Linear(32, 32), act, shared, act, *blocks(count=2))


def chained(model):
    """The model with the least memory, so that all that can runs again."""
    chain = rk.Checkpointable(model, SAMPLE)
    with pytest.raises(rk.BudgetError) as refused:
        chain.compute_sequence(1)
    chain.compute_sequence(refused.value.smallest_bytes)
    assert len(chain.sequence) > 2 * len(chain.functions) + 1, "something runs again"
    return chain


def both(make, program):
    """What a program gives without a chain and with one."""
    torch.manual_seed(0)
    plain = make()
    model = copy.deepcopy(plain)
    chain, results = chained(model), []
    for run, own in ((plain, plain), (chain, model)):
        torch.manual_seed(1)
        random.seed(1)
        found = program(run, own)
        gradients = [torch.zeros(()) if one.grad is None else one.grad for one in own.parameters()]
        results.append([*found, *gradients, *own.buffers()])
    return results


def loss_of(run, x=SAMPLE):
    return run(x).square().mean()


def input_alone(run, _):
    x = SAMPLE.clone().requires_grad_()
    return torch.autograd.grad(loss_of(run, x), x)


def input_alone_by_backward(run, _):
    x = SAMPLE.clone().requires_grad_()
    loss_of(run, x).backward(inputs=[x])
    return [x.grad]


def parameters_alone(run, model):
    return torch.autograd.grad(loss_of(run), list(model.parameters()))


def two_calls_before_backward(run, _):
    for _ in range(2):
        (loss_of(run) + loss_of(run, SAMPLE.sin())).backward()
    return []


def micro_batches(run, _):
    for scale in (1.0, 0.5, 0.25):
        loss_of(run, SAMPLE * scale).backward()
    return []


def hook_on_a_parameter(run, model):
    for one in model.parameters():
        one.register_hook(torch.sign)
    loss_of(run).backward()
    return []


def optimizer_in_backward(run, model):
    def step(parameter):
        parameter.data.sub_(parameter.grad)
        parameter.grad = None

    for one in model.parameters():
        one.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        loss_of(run).backward()
    return [one.detach() for one in model.parameters()]


def evaluation_before_backward(run, model):
    loss = loss_of(run)
    model.eval()
    loss.backward()
    return []


def thawed_before_backward(run, model):
    x = SAMPLE.clone().requires_grad_()
    model.requires_grad_(False)
    loss = loss_of(run, x)
    model.requires_grad_(True)
    loss.backward()
    return [x.grad]


def other_weights_for_a_call(run, model):
    given = {
        name: (one.detach() * 0.5).requires_grad_()
        for name, one in (run if run is model else run.model).named_parameters()
    }
    prefixed = given if run is model else {f"model.{name}": one for name, one in given.items()}
    loss = torch.func.functional_call(run, prefixed, (SAMPLE,)).square().mean()
    loss.backward()
    return [one.grad for one in given.values()]


def weights_assigned_before_backward(run, model):
    old = list(model.parameters())
    loss = loss_of(run)
    model.load_state_dict({name: one * 2 for name, one in model.state_dict().items()}, assign=True)
    loss.backward()
    return [one.grad for one in old]


PROGRAMS = {
    input_alone: blocks,
    input_alone_by_backward: blocks,
    parameters_alone: blocks,
    two_calls_before_backward: blocks,
    micro_batches: tied,
    hook_on_a_parameter: tied,
    optimizer_in_backward: tied,
    evaluation_before_backward: lambda: blocks(nn.Dropout(0.3), nn.BatchNorm1d(32)),
    thawed_before_backward: blocks,
    other_weights_for_a_call: blocks,
    weights_assigned_before_backward: blocks,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_as_without_a_chain(program):
    expected, found = both(PROGRAMS[program], program)
    assert equal(expected, found)


class Odd(nn.Module):
    """Counts its calls, draws from generators that are not PyTorch's default one, and assigns a buffer."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.seen = nn.Linear(32, 32), 0, []
        self.generator = torch.Generator().manual_seed(3)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.mean = self.mean * 0.9 + x.detach().mean() * self.calls
        self.seen.append(self.calls)
        if random.random() < 0.3:
            return x + self.mean
        return torch.tanh(self.linear(x)) * torch.rand(x.shape, generator=self.generator) * self.calls


def test_attributes_and_other_generators():
    torch.manual_seed(0)
    plain, model = (nn.Sequential(*(Odd() for _ in range(6))) for _ in range(2))
    model.load_state_dict(plain.state_dict())
    chain, results = chained(model), []
    for run, own in ((plain, plain), (chain, model)):
        random.seed(1)
        for one in own:
            one.calls, one.mean = 0, torch.zeros(())
            one.seen.clear()
            one.generator.manual_seed(3)
        for _ in range(2):
            loss_of(run).backward()
        assert [one.seen for one in own] == [[1, 2]] * 6
        states = [one.generator.get_state() for one in own]
        gradients = [one.grad for one in own.parameters() if one.grad is not None]
        results.append([*gradients, *own.buffers(), *states, torch.tensor(random.random())])
    assert equal(*results)


class Last(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(32, 32, batch_first=True)

    def forward(self, x):
        return self.cell(x.view(16, 8, 32))[0].reshape(128, 32)


class Encoder(nn.TransformerEncoderLayer):
    def __init__(self):
        super().__init__(32, 4, 64, 0.0, batch_first=True)

    def forward(self, x):
        return super().forward(x.view(16, 8, 32)).reshape(128, 32)


@pytest.mark.parametrize(
    "make", [lambda: Last(nn.LSTM), lambda: Last(nn.GRU), Encoder], ids=["lstm", "gru", "encoder"]
)
def test_stages_that_take_other_kernels_without_gradients(make):
    def model():
        return nn.Sequential(make(), make(), make(), *blocks(count=2)).eval()

    assert equal(*both(model, micro_batches))


def test_hooks_of_sequences():
    torch.manual_seed(0)
    plain = blocks()
    plain[1].register_full_backward_hook(lambda _, inputs, __: (inputs[0] * 0.5,))
    plain[2].register_forward_hook(lambda _, __, output: output * 2)
    model = copy.deepcopy(plain)
    results = []
    for run, own in ((plain, plain), (chained(model), model)):
        loss_of(run).backward()
        results.append([one.grad for one in own.parameters()])
    assert equal(*results)


def test_a_stage_that_cannot_be_repeated_is_told_of():
    generator = torch.Generator().manual_seed(3)

    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(x.shape, generator=generator)

    with pytest.warns(UserWarning, match="stage 1 gives other bits when it runs again"):
        rk.Checkpointable(nn.Sequential(nn.Linear(32, 32), Noisy()), SAMPLE)


def test_what_a_chain_cannot_do_is_refused_by_name():
    model = blocks()
    chain = chained(model)
    x = SAMPLE.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss_of(chain, x), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="under a transform of torch.func"):
        torch.func.grad(lambda value: loss_of(chain, value))(SAMPLE)
    model[1].register_forward_hook(lambda *_: None)
    with pytest.raises(rk.OptionError, match="the nn.Sequential '1' has hooks"):
        chain(SAMPLE)
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(rk.OptionError, match="the nn.Sequential has hooks"):
        rk.Checkpointable(model)
