"""rotor's class: its forms, its example, sequences executed as they stand, bits as without it."""

from __future__ import annotations

import copy

import pytest
import torch
from loaned_models import CHANGES
from torch import nn
from training import equal

import rk
from rk._chain import chain
from rk._chain import run as chain_run
from rk._plan import measure

EXAMPLE = """
import rk as rotor
import torch

device = torch.device("cpu")
net = rotor.models.resnet18()
net.to(device=device)
net_check = rotor.Checkpointable(net)
shape = (4, 3, 128, 128)
sample = torch.rand(*shape, device=device)
net_check.measure(sample)
net_check.compute_sequence(mem_limit = 40*1024*1024)

data = torch.rand(*shape, device=device)
data.requires_grad = True
result = net_check(data).sum()
result.backward()
grad = data.grad
"""
"""The complete example of rotor's README; device, shape and limit are smaller."""


def net(blocks=4, width=64):
    torch.manual_seed(0)

    def block():
        return nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True), nn.Dropout(0.3)
        )

    return nn.Sequential(*(block() for _ in range(blocks)))


SAMPLE = torch.linspace(-1, 1, 512 * 64).reshape(512, 64)


def trained(run, model, sample=SAMPLE):
    torch.manual_seed(5)
    for _ in range(2):
        data = sample.clone().requires_grad_()
        loss = run(data).square().mean()
        loss.backward()
    gradients = [one.grad for one in model.parameters()]
    return [loss.detach(), data.grad, *gradients, *model.buffers()]


def test_the_example_of_its_readme_runs():
    names = {}
    exec(EXAMPLE, names)  # noqa: S102
    assert names["grad"].shape == (4, 3, 128, 128)
    kinds = {operation.kind for operation in names["net_check"].sequence}
    assert kinds >= {"CF", "Fe", "B", "L"}, "within this limit something has to run twice"


@pytest.mark.parametrize("share", [1.0, 0.6, 0.4])
def test_bits_and_peak(share):
    plain, model = net(), net()
    chk = rk.Checkpointable(model, SAMPLE)
    chk.compute_sequence(10**9)
    limit = int(share * chk.get_expected_memory())
    chk.compute_sequence(limit)
    assert equal(trained(plain, plain), trained(chk, model))
    runs = [one for one in chk.sequence if one.kind in ("Fn", "CF", "Fe")]
    assert (len(runs) > len(chk.functions)) == (share < 1)
    measured = measure.peak(measure.training_step(chk, SAMPLE, lambda output: output.sum()), model)
    assert measured <= chk.get_expected_memory() + 4096 <= limit + 4096


def test_forms_of_the_constructor(capsys):
    limit = 3 * 2**20
    one = rk.Checkpointable(net(), SAMPLE, limit)
    two = rk.Checkpointable(net(), SAMPLE)
    two.compute_sequence(limit)
    three = rk.Checkpointable(net(), mem_limit=limit, preserve_rng_state=False, mem_slots=100, verbosity=0)
    three.measure(SAMPLE)
    three.compute_sequence()
    for chk in (one, two, three):
        assert chk.get_expected_memory() > 0 and chk.get_expected_makespan() > 0
        assert str(chk.sequence).startswith("[") and ", L, " in str(chk.sequence)
    one.display()
    assert "sequence: [" in capsys.readouterr().out


def test_errors():
    with pytest.raises(rk.OptionError, match="takes an nn.Sequential, not Linear"):
        rk.Checkpointable(nn.Linear(2, 2))
    chk = rk.Checkpointable(net())
    with pytest.raises(rk.OptionError, match="call measure"):
        chk.compute_sequence(1000)
    with pytest.raises(rk.OptionError, match="no sequence yet"):
        chk(SAMPLE)
    chk.measure(SAMPLE)
    with pytest.raises(rk.BudgetError) as caught:
        chk.compute_sequence("200KiB")
    assert caught.value.smallest_bytes > 200 * 1024


def test_measuring_leaves_no_trace():
    model = net()
    before = [one.clone() for one in model.state_dict().values()]
    state = torch.get_rng_state()
    rk.Checkpointable(model).measure(SAMPLE)
    assert equal(before, list(model.state_dict().values()))
    assert torch.equal(state, torch.get_rng_state())
    assert all(one.grad is None for one in model.parameters())


def test_tuples_frozen_stages_and_evaluation():
    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            left, right = x if isinstance(x, tuple) else (x, x)
            return self.first(left).tanh(), self.second(right).relu()

    torch.manual_seed(0)
    model = nn.Sequential(*(Fork() for _ in range(5)))
    model[0].requires_grad_(False)
    x = torch.randn(32, 16)
    order = [chain.Operation("CF", 0), *(chain.Operation("Fn", i) for i in range(1, 4))]
    order += [chain.Operation("Fe", 4), chain.Operation("L", 5), chain.Operation("B", 4)]
    for last in (3, 2, 1):
        order += [chain.Operation("CF", 0), *(chain.Operation("Fn", i) for i in range(1, last))]
        order += [chain.Operation("Fe", last), chain.Operation("B", last)]
    order += [chain.Operation("Fe", 0), chain.Operation("B", 0)]

    def gradients(run):
        model.zero_grad()
        left, right = run(x)
        (left.sum() + right.square().sum()).backward()
        return [one.grad.clone() for one in model.parameters() if one.requires_grad]

    chk = rk.Checkpointable(model, x, 10**9)
    chained = gradients(lambda given: chain_run.run(list(model), order, given, True))
    assert equal(gradients(model), chained) and equal(chained, gradients(chk))
    with torch.no_grad():
        assert equal(list(model(x)), list(chk(x)))


def test_a_second_backward_is_refused():
    chk = rk.Checkpointable(net(), SAMPLE, 10**9)
    loss = chk(SAMPLE).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


@pytest.mark.parametrize("name", ["resnet18", "vgg11", "densenet121", "alexnet"])
def test_networks_as_sequences(name):
    import torchvision

    torch.manual_seed(0)
    whole = getattr(torchvision.models, name)(num_classes=10).eval()
    flat = rk.models.sequential(whole)
    assert list(flat.state_dict()) == list(whole.state_dict())
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(flat(x), whole(x))


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_inception_networks_as_sequences(name):
    import torchvision

    torch.manual_seed(0)
    whole = getattr(torchvision.models, name)(
        num_classes=10, aux_logits=False, transform_input=True, init_weights=False
    )
    flat = rk.models.sequential(whole)
    assert list(flat.state_dict()) == list(whole.state_dict())
    x = torch.randn(2, 3, 80, 80)
    results = []
    for one in (whole, flat):
        torch.manual_seed(1)
        results.append(one(x))
    assert torch.equal(*results), "in training, with dropout"


def test_auxiliary_classifiers_leave_a_sequence():
    short = rk.models.googlenet(num_classes=10, init_weights=False)
    assert not [name for name in short.state_dict() if name.startswith("aux")]
    with pytest.raises(TypeError, match="aux1, aux2.*aux_logits=False"):
        rk.models.googlenet(num_classes=10, init_weights=False, aux_logits=True)


def test_networks_that_are_not_there():
    with pytest.raises(AttributeError, match="there are torchvision's"):
        _ = rk.models.transformer


def test_all_networks_are_listed_and_can_be_made():
    listed = [one for one in dir(rk.models) if one.startswith(rk.models.FAMILIES)]
    assert {"alexnet", "densenet201", "googlenet", "inception_v3", "resnet18", "vgg19_bn"} <= set(listed)
    assert {"sequential", "FAMILIES"} <= set(dir(rk.models))
    with torch.device("meta"):
        for one in listed:
            given = {"init_weights": False} if one in ("googlenet", "inception_v3") else {}
            assert isinstance(getattr(rk.models, one)(**given), nn.Sequential), one


class Shift(nn.Module):
    """Subtracts a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.linspace(-1, 1, 64))

    def forward(self, x):
        return torch.tanh(x - self.center)


def changed(run, model, find, change):
    """The gradients of a step in whose middle something is changed, or the error by its first words."""
    data = SAMPLE.clone()
    result = run(data)
    for one in find(model, data):
        change(one)
    try:
        result.square().mean().backward()
    except RuntimeError as error:
        return str(error)[:40]
    return [one.grad for one in model.parameters()]


LOANS = {
    "biases": lambda model, _: [one for name, one in model.named_parameters() if name.endswith("bias")],
    "buffers": lambda model, _: list(model.buffers()),
    "weights": lambda model, _: [model[3].weight],
    "sample": lambda _, data: [data],
}


@pytest.mark.parametrize("what", LOANS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "first", [lambda: nn.Linear(64, 64), nn.Flatten, nn.Tanh], ids=["linear", "view", "tanh"]
)
def test_what_the_caller_changes_before_backward(first, change, what):
    read = what == "weights" or what == "sample" and first is not nn.Tanh
    if change != "in place" and read:
        pytest.skip("backward reads it itself, and nobody promises what comes of it")
    torch.manual_seed(0)
    blocks = [layer for _ in range(4) for layer in (nn.Linear(64, 64), Shift())]
    model = nn.Sequential(first(), *blocks)
    twin = copy.deepcopy(model)
    run = rk.Checkpointable(model, SAMPLE)
    with pytest.raises(rk.BudgetError) as refused:
        run.compute_sequence(1)
    run.compute_sequence(refused.value.smallest_bytes)
    assert len(run.sequence) > 2 * len(model) + 1, "something runs again"
    expected = changed(twin, twin, LOANS[what], CHANGES[change])
    found = changed(run, model, LOANS[what], CHANGES[change])
    assert expected == found if read else equal(expected, found)
