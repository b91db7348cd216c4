"""What codegen="rk" computes with, and what it refuses: by name, before anything is planned."""

from __future__ import annotations

import only_with_runtime  # noqa: F401 - skips this module
import pytest
import torch
from test_bits import equal
from torch._dynamo import compiled_autograd
from torch.nn import functional

import rk
from rk._compile import backend


def gradient(function, *inputs, backend="rk", **options):
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(4, 8, requires_grad=True)
    options = {"options": {"codegen": "rk", "budget": "100%", **options}} if backend == "rk" else {}
    results = torch.compile(function, backend=backend, **options)(x, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    sum(one.float().sum() for one in results).backward()
    return [*(one.detach().float() for one in results), x.grad]


@torch.library.custom_op("rk_limits::part", mutates_args=())
def part(x: torch.Tensor) -> torch.Tensor:
    """A slice of a buffer that is longer than tracing says."""
    longer = torch.full((3 * x.numel(),), 7.0)
    longer[5 : 5 + x.numel()] = x.flatten() * 2
    return longer[5 : 5 + x.numel()].view(x.shape)


part.register_fake(torch.empty_like)
part.register_autograd(lambda ctx, g: part(g))


@torch.library.custom_op("rk_limits::silent", mutates_args=())
def silent(x: torch.Tensor) -> torch.Tensor:
    """Fails without a word, but not on the halves that costs are measured with."""
    assert x.eq(0.5).all()
    return x.clone()


silent.register_fake(torch.empty_like)
silent.register_autograd(lambda ctx, g: g)


@torch.library.custom_op("rk_limits::fill", mutates_args=("y",))
def fill(x: torch.Tensor, y: torch.Tensor) -> None:
    """Overwrites what it is given."""
    y.copy_(x * 2)


fill.register_fake(lambda x, y: None)


@pytest.mark.parametrize("budget", ["100%", "70%"])
def test_a_result_that_is_a_part_of_a_longer_storage(budget):
    def function(x):
        for _ in range(3):
            x = part(x.sin()).sigmoid()
        return x

    rk.allow_recompute(part)
    expected = gradient(function, backend="aot_eager")
    assert equal(expected, gradient(function, budget=budget, on_infeasible="best"))


class Norms(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norms = torch.nn.ModuleList(
            [
                torch.nn.LayerNorm(8),
                torch.nn.BatchNorm1d(8),
                torch.nn.GroupNorm(2, 8),
                torch.nn.BatchNorm1d(8),
            ]
        )
        self.norms[3].eval()

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            for norm in self.norms:
                x = norm(torch.sin(self.linear(x)))
        return x


def test_norms_of_a_lower_precision_than_their_weights():
    """Their statistics are in the weights' precision, whatever tracing says."""
    made = []
    for name in ("aot_eager", "rk"):
        torch.manual_seed(1)
        made.append(gradient(Norms(), backend=name))
    assert equal(*made)


def test_an_error_without_a_message_names_its_operator():
    rk.allow_recompute(silent)
    with pytest.raises(rk.ExecutionError, match="rk_limits.silent.default: .*AssertionError"):
        gradient(lambda x: silent(x.sin()).exp())


def filled(x):
    y = torch.empty(4, 8)
    fill(x.detach(), y)
    return y * x


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)).exp()


def written_by_number(x):
    y = torch.zeros(4, 8)
    y[: x.detach()[:, 0].gt(0).nonzero().shape[0]] = 1.0
    return y * x


def laplacian(x):
    """Forward mode over reverse mode: weights, which have no tangent, get zeros that have no memory."""
    hessian = torch.func.vmap(torch.func.hessian(lambda v: functional.linear(v, WEIGHT).tanh().sum()))(x)
    return hessian.diagonal(dim1=-2, dim2=-1).sum(-1).square()


def largest_of_bags(x):
    return functional.embedding_bag(torch.arange(4).view(2, 2), x, mode="max")


WEIGHT = torch.ones(8, 8) / 8
REFUSED = [
    (filled, "auto_functionalized_v2 of rk_limits.fill.default"),
    (chosen, "higher-order operator cond"),
    (lambda x: torch.view_as_real(x * (1 + 2j)), "of aten.mul.Tensor is .1.2j., of type complex"),
    (laplacian, "_efficientzerotensor.default makes zeros without memory"),
    (largest_of_bags, "what aten._embedding_bag_.*backward.default needs .* depends on its data"),
    (
        lambda x, i: x[i.long()],
        r"argument .* has elements of type torch.uint16",
        torch.tensor([1], dtype=torch.uint16),
    ),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("function", "named", "inputs"), [(f, n, i) for f, n, *i in REFUSED], ids=[n for _, n, *_ in REFUSED]
)
def test_what_is_refused_is_named_and_runs_with_the_other_codegen(function, named, inputs, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(backend, "Problem", None)
        words = f"{named}.*codegen='rk' cannot run this graph; codegen='fx' can"
        with pytest.raises(Exception, match=words) as info:
            gradient(function, *inputs)
    assert isinstance(info.value.inner_exception, rk.CompileError)
    expected = gradient(function, *inputs, backend="aot_eager")
    assert equal(expected, gradient(function, *inputs, codegen="fx"))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (
            lambda x: x[x.detach()[:, 0].gt(0).nonzero()[:, 0]],
            r"aten.nonzero.default has the size .*, which depends on data",
        ),
        (written_by_number, "depends on data|computed from data"),
        (
            lambda x: x * int(x.detach().abs().sum().item()),
            "takes the number .*, which is computed from data",
        ),
    ],
)
def test_what_depends_on_data_is_named(function, named):
    capture = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)
    with capture, pytest.raises(Exception, match=f"({named}).*Dynamo ends the graph") as info:
        gradient(function)
    assert isinstance(info.value.inner_exception, rk.CompileError)


def test_an_argument_of_another_layout_is_named():
    with pytest.raises(rk.ExecutionError, match="layout torch._mkldnn.*codegen='fx'"):
        gradient(lambda x, y: x * y.to_dense(), torch.randn(4, 8).to_mkldnn())


def test_compiled_autograd_around_backward_only_is_refused_by_name():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    compiled = torch.compile(model, backend="rk", options={"codegen": "rk", "budget": "100%"})
    loss = compiled(torch.ones(4, 8)).sum()
    with (
        compiled_autograd._enable(lambda graph: torch.compile(graph, backend="eager")),
        pytest.raises(Exception, match="forward pass was compiled without it"),
    ):
        loss.backward()


@torch.library.custom_op("rk_limits::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """Of another element type than tracing says."""
    return (x * 2).double()


doubled.register_fake(torch.empty_like)
doubled.register_autograd(lambda ctx, g: g)


def test_a_result_that_tracing_does_not_know_is_refused_with_what_to_do():
    rk.allow_recompute(doubled)
    told = "a result takes 256 bytes instead of the planned 128.*codegen='fx'"
    with pytest.raises(rk.ExecutionError, match=told):
        gradient(lambda x: doubled(x.sin()).sigmoid())


def test_an_operator_that_fails_names_itself_and_what_to_do():
    def step(x):
        rows = (x.detach().abs() + 9).long().flatten()
        return functional.embedding(rows, x).square()

    with pytest.raises(rk.ExecutionError, match=r"aten\.embedding.*index out of range.*codegen='fx'"):
        gradient(step)
