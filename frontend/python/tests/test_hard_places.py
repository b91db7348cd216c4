"""Where a rewritten step goes wrong first: each case trains with and without rk, and compares every bit."""

from __future__ import annotations

import warnings

import pytest
import torch
from codegens import needs_runtime
from test_bits import equal, train
from torch import nn
from torch.utils.checkpoint import checkpoint

BUDGET = {"budget": "70%", "on_infeasible": "best"}
"""Where 70 % is out of reach, the smallest that is not: in any case something is recomputed."""


def both(make, inputs, options=BUDGET, steps=3, **compile_options):
    """The results of training with aot_eager and with rk."""
    plain = train(make, inputs, lambda m: torch.compile(m, backend="aot_eager", **compile_options), steps)
    planned = train(
        make, inputs, lambda m: torch.compile(m, backend="rk", options=options, **compile_options), steps
    )
    return plain, planned


class Chain(nn.Module):
    """Linear layers with something between them."""

    def __init__(self, between=nn.GELU, layers=6, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.between = between()

    def forward(self, x):
        for layer in self.layers:
            x = self.between(layer(x))
        return x.square().mean()


class Normed(nn.Module):
    """Batch norms that are cheap to run again, and must not update their statistics again."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(6))
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(6))

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.relu(norm(conv(x)))
        return x.mean()


class TwiceNormed(nn.Module):
    """One batch norm that runs twice in a step: its statistics are updated twice, in order."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        for conv in self.convs:
            x = torch.relu(self.norm(conv(x)))
        return x.mean()


class Counting(nn.Module):
    """Buffers that forward updates, one of which backward reads in its old value; `keep` says how."""

    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.inner = Chain()
        self.register_buffer("scale", torch.full((64,), 1.5))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        x = x * self.keep(self.scale) * self.inner.layers[0].weight.sum()
        with torch.no_grad():
            self.scale.mul_(0.9)
        return self.inner(x) * self.keep(self.calls)


class Tied(nn.Module):
    """Embedding and head share a parameter; another one is frozen; an index is returned beside the loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.body = nn.Sequential(
            *(nn.Sequential(nn.Linear(32, 32), nn.ReLU(inplace=True)) for _ in range(5))
        )
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embed.weight
        self.body[1][0].weight.requires_grad_(False)

    def forward(self, tokens):
        logits = self.head(self.body(self.embed(tokens)))
        self.best = None
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class InPlace(nn.Module):
    """Writes into slices of what it made."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        y = self.first(x).clone()
        y[:, ::2] = 0
        y[:, 1:3].mul_(2)
        z = self.second(y)
        z += y
        return z.relu_().tanh().sum()


def floats():
    return (torch.randn(64, 64),)


def images():
    return (torch.randn(4, 4, 12, 12),)


def tokens():
    return (torch.randint(50, (8, 16)),)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: Chain(lambda: nn.Dropout(0.4)), floats),
        (lambda: Chain(lambda: nn.RReLU()), floats),
        (Normed, images),
        (TwiceNormed, images),
        (Tied, tokens),
        (InPlace, floats),
    ],
    ids=["dropout", "rrelu", "norm", "norm twice", "tied", "in place"],
)
def test_bits_are_equal(make, inputs):
    plain, planned = both(make, inputs)
    assert equal(plain, planned)


def test_draws_that_say_their_device_run_again():
    class Drawn(nn.Module):
        def forward(self, x):
            return x.sin() * torch.rand(x.shape, dtype=x.dtype, device=x.device)

    least = {"budget": "1%", "on_infeasible": "best"}
    assert equal(*both(lambda: Chain(Drawn), floats, least))


def test_backward_reads_what_forward_read():
    """aot_eager reads the updated buffer in backward; what is right is what eager computes with a copy."""
    right = train(lambda: Counting(torch.clone), floats, lambda m: m, 3)
    compiled = lambda m: torch.compile(m, backend="rk", options=BUDGET)  # noqa: E731
    assert equal(right, train(lambda: Counting(lambda buffer: buffer), floats, compiled, 3))


def test_autocast():
    class Cast(Chain):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x).float()

    assert equal(*both(Cast, floats))


def test_user_checkpoints_are_planned_like_the_rest():
    class Checkpointed(Chain):
        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(
                    lambda v, layer=layer: nn.functional.dropout(layer(v), 0.2), x, use_reentrant=False
                )
            return x.square().mean()

    plain = train(Checkpointed, floats, lambda m: m, 3)
    assert equal(
        plain, train(Checkpointed, floats, lambda m: torch.compile(m, backend="rk", options=BUDGET), 3)
    )


def test_several_outputs_of_several_kinds():
    class Several(Chain):
        def forward(self, x):
            y = self.layers[0](x)
            loss = super().forward(y)
            return {"loss": loss, "best": y.argmax(1), "hidden": [y, y.detach(), y.t()], "name": "several"}

    model = Several()
    x = torch.randn(8, 64)
    expected = model(x)
    expected["loss"].backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    found = torch.compile(model, backend="rk", options={"budget": "100%"})(x)
    found["loss"].backward()
    assert found["name"] == "several" and torch.equal(found["best"], expected["best"])
    assert equal(found["hidden"], expected["hidden"]) and not found["hidden"][1].requires_grad
    assert equal(gradients, [p.grad for p in model.parameters()])


def test_gradient_accumulation():
    def run(compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Chain(lambda: nn.Dropout(0.2))
        step = compiled(model)
        for _ in range(4):
            step(*floats()).backward()
        return [p.grad for p in model.parameters()]

    compile_with = lambda backend, **more: lambda m: torch.compile(m, backend=backend, **more)  # noqa: E731
    assert equal(run(compile_with("aot_eager")), run(compile_with("rk", options=BUDGET)))


def test_no_grad_and_eval():
    torch.manual_seed(0)
    model = Chain(lambda: nn.Dropout(0.5))
    compiled = torch.compile(model, backend="rk", options=BUDGET)
    x = torch.randn(8, 64)
    compiled(x).backward()
    model.eval()
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    compiled(x).backward()


def test_every_batch_size_has_its_plan():
    sizes = iter([16, 12, 12, 7, 16])

    def inputs():
        return (torch.randn(next(sizes), 64),)

    plain = train(Chain, inputs, lambda m: torch.compile(m, backend="aot_eager"), 5)
    sizes = iter([16, 12, 12, 7, 16])
    assert equal(plain, train(Chain, inputs, lambda m: torch.compile(m, backend="rk", options=BUDGET), 5))


def test_a_number_that_changes():
    class Weighted(Chain):
        def forward(self, x, weight):
            return super().forward(x) * weight

    def run(**backend):
        weights = iter([0.5, 0.25, 0.125, 0.5])
        inputs = lambda: (*floats(), next(weights))  # noqa: E731
        return train(Weighted, inputs, lambda m: torch.compile(m, **backend), 4)

    assert equal(run(backend="aot_eager"), run(backend="rk", options=BUDGET))


@pytest.mark.parametrize("codegen", ["fx", pytest.param("rk", marks=needs_runtime)])
def test_graphs_that_a_break_makes_share_the_budget(codegen):
    """Neither is named as one that may take more: they keep the budget together from the first step on."""

    class Broken(Chain):
        def forward(self, x):
            for layer in self.layers[:3]:
                x = self.between(layer(x))
            print(end="")
            return super().forward(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain, planned = both(Broken, floats, BUDGET | {"codegen": codegen})
    assert equal(plain, planned)
    told = [str(one.message) for one in caught]
    assert not [one for one in told if "graphs share the budget" in one or "missing for it" in one]


def test_data_dependent_control_flow_under_fullgraph():
    class Branching(Chain):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x.sum()

    with pytest.raises(Exception, match="(?i)data-dependent"):
        torch.compile(Branching(), backend="rk", options=BUDGET, fullgraph=True)(*floats())


def test_a_second_backward_is_refused_as_pytorch_does():
    loss = torch.compile(Chain(), backend="rk", options=BUDGET)(*floats())
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
