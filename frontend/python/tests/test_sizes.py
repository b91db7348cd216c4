"""Sizes that change, numbers among the inputs, and what no plan can be made of."""

from __future__ import annotations

import warnings

import pytest
import torch
from codegens import CODEGENS
from test_bits import equal, train
from test_hard_places import BUDGET, Chain
from torch import nn
from torch._dynamo import compiled_autograd

import rk
from rk._compile import sizes

NORMS = {
    "layer": lambda: nn.LayerNorm(16),
    "batch": lambda: nn.BatchNorm1d(16),
    "rms": lambda: nn.RMSNorm(16, eps=1e-6),
    "dropout": lambda: nn.Dropout(0.3),
}


def both(make, batches, **about):
    """The results of training with aot_eager and with rk, on these batches in order."""
    results = []
    for backend, more in (("aot_eager", {}), ("rk", {"options": BUDGET})):
        given = iter(batches)
        compiled = lambda m: torch.compile(m, backend=backend, **more, **about)  # noqa: B023, E731
        results.append(train(make, lambda: next(given), compiled, len(batches)))  # noqa: B023
    return results


def rows(*counts):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(count, 16, generator=generator),) for count in counts]


class Summed(nn.Sequential):
    def forward(self, x):
        return super().forward(x).square().mean()


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_numbers_of_layers_under_dynamic_sizes(norm):
    make = lambda: Summed(nn.Linear(16, 16), norm(), nn.Linear(16, 16), nn.GELU())  # noqa: E731
    assert equal(*both(make, rows(8, 5, 8), dynamic=True))


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("counts", [(16,), (16, 8), (8, 16)])
def test_numbers_beside_as_many_rows_as_columns(counts):
    """Dynamo takes equal sizes for one; that of a weight is known, and then all but the numbers is."""

    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate, self.factor, self.linear = 0.5, 0.25, nn.Linear(16, 16)

        def forward(self, x):
            y = torch.sin(self.linear(x)) * self.factor
            return nn.functional.dropout(y, self.rate, training=True).sum()

    assert equal(*both(Dropped, rows(*counts), dynamic=True, fullgraph=True))
    model = Dropped()
    compiled = torch.compile(model, backend="rk", options=BUDGET, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for (x,) in rows(*counts):
            torch.manual_seed(0)
            expected = model(x)
            torch.manual_seed(0)
            assert torch.equal(compiled(x), expected)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_buffer_that_is_written_beside_as_many_rows_as_columns(codegen):
    """All sizes are known, and what is made of Dynamo's own tensors still has symbols for sizes."""

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.register_buffer("noise", torch.zeros(16))

        def forward(self, x):
            self.noise.normal_()
            return torch.sin(self.linear(x + self.noise)).square().mean()

    results = []
    for about in ({"backend": "aot_eager"}, {"backend": "rk", "options": {**BUDGET, "codegen": codegen}}):
        compiled = lambda m: torch.compile(m, dynamic=True, **about)  # noqa: B023, E731
        results.append(train(Noisy, lambda: rows(16)[0], compiled, 2))
    assert equal(*results)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_that_changes_beside_sizes_that_change(dynamic):
    class Weighted(Chain):
        def forward(self, x, weight, power):
            return (super().forward(x) * weight + (x.float() ** power).mean()) * (weight + 1)

    given = ((8, 0.5, 2), (6, 0.25, 2), (8, 0.125, 3))
    batches = [(torch.randn(count, 64), weight, power) for count, weight, power in given]
    assert equal(*both(Weighted, batches, dynamic=dynamic))


@pytest.mark.filterwarnings("ignore:rk")
@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_number_that_changes_beside_sizes_that_do_not(codegen):
    """The weight of a loss, the share of mixed examples: Dynamo makes an input of it in the second step."""
    linear, x, target = nn.Linear(16, 16), rows(8)[0][0], torch.arange(8)

    def mixed(x, share):
        loss = nn.functional.cross_entropy
        return share * loss(linear(x), target) + (1 - share) * loss(linear(x).tanh(), target.flip(0))

    results = []
    for about in ({"backend": "aot_eager"}, {"backend": "rk", "options": {**BUDGET, "codegen": codegen}}):
        torch._dynamo.reset()
        run, seen = torch.compile(mixed, **about), []
        for share in (0.5, 0.3, 0.2):
            linear.zero_grad()
            loss = run(x, share)
            loss.backward()
            seen += [loss.detach(), linear.weight.grad]
        results.append(seen)
    assert equal(*results)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
def test_floats_stay_inputs():
    with torch._dynamo.config.patch(specialize_float=False):
        make = lambda: Summed(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())  # noqa: E731
        assert equal(*both(make, rows(8, 5, 8)))


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_dimension_that_is_marked(codegen):
    def batches():
        for (x,) in rows(8, 5, 8):
            torch._dynamo.mark_dynamic(x, 0)
            yield (x,)

    results = []
    for about in ({"backend": "aot_eager"}, {"backend": "rk", "options": {**BUDGET, "codegen": codegen}}):
        given = batches()
        make = lambda: Summed(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())  # noqa: E731
        results.append(train(make, lambda: next(given), lambda m: torch.compile(m, **about), 3))  # noqa: B023
    assert equal(*results)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
def test_strides_that_change():
    def batches():
        whole = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
        flat = whole.view(128, 16)
        return [(whole[:8, :16],), (flat[:5],), (flat[:8],), (whole[:8, 16:32],)]

    make = lambda: Summed(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))  # noqa: E731
    assert equal(*both(make, batches(), dynamic=True))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_compiled_backward_pass(dynamic):
    gradients = []
    for about in ({"backend": "aot_eager"}, {"backend": "rk", "options": {"budget": "100%"}}):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())
        for count in (8, 5):
            loss = model(torch.ones(count, 16)).sum()
            with compiled_autograd._enable(lambda graph: torch.compile(graph, dynamic=dynamic, **about)):  # noqa: B023
                loss.backward()
        gradients.append([one.grad for one in model.parameters()])
    assert equal(*gradients)


def test_a_graph_without_backward_is_compiled_once():
    made = []
    model, run = Chain(), None

    class Counted(sizes.BySizes):
        def __init__(self, *args):
            made.append(self)
            super().__init__(*args)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(sizes, "BySizes", Counted)
        run = torch.compile(model, backend="rk", options=BUDGET, dynamic=True)
        for count in (2, 3, 4, 5):
            assert torch.equal(run(torch.ones(count, 64)), model(torch.ones(count, 64)))
    assert not made and torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1


def test_sets_of_sizes_are_bounded_and_told():
    class Made:
        def __init__(self, graph):
            self.graph = graph

        def compile(self, args):
            pass

        def __call__(self, *args):
            return self.graph(*args)

    by_sizes = sizes.BySizes(torch.fx.symbolic_trace(nn.Identity()), Made, [torch.SymInt])
    with pytest.warns(UserWarning, match="planned for 16 sets of sizes"):
        assert [by_sizes(n) for n in range(20)] == list(range(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [by_sizes(n) for n in range(200)] == list(range(200))
    assert len(by_sizes.by_sizes) == sizes.MOST
    assert by_sizes(True) is True and by_sizes(1.0) == 1.0


class SparseIndex(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.table, self.head = make(), nn.Linear(4, 4)

    def forward(self, rows):
        return self.head(self.table(rows)).sum()


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Embedding(10, 4, sparse=True),
        lambda: nn.EmbeddingBag(10, 4, sparse=True, mode="sum"),
        lambda: nn.EmbeddingBag(10, 4, sparse=True, mode="mean"),
    ],
)
@pytest.mark.parametrize("codegen", CODEGENS)
def test_sparse_gradients_are_refused_by_name(make, codegen):
    model = SparseIndex(make)
    rows = torch.arange(6).reshape(2, 3)
    with pytest.raises(Exception, match="(?s)module 'table'.*layout sparse_coo.*sparse=False") as caught:
        torch.compile(model, backend="rk", options={"budget": "100%", "codegen": codegen})(rows)
    assert isinstance(caught.value.inner_exception, rk.CompileError)
    with pytest.raises(rk.CompileError, match="sparse=False"):
        rk.plan(model, (rows,), "100%")


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_inputs_are_not_passed_over_in_silence(layout):
    """Dynamo gives such a frame up."""
    matrix = torch.eye(6).to_sparse() if layout == "coo" else torch.eye(6).to_sparse_csr()
    layer = nn.Linear(6, 6)
    with pytest.raises(rk.CompileError, match="governs nothing.*Addmm"):
        rk.compile(lambda x: torch.sparse.mm(matrix, layer(x)), budget=1000)(torch.ones(6, 6))


def test_sizes_that_depend_on_data_are_refused_by_name():
    class Chosen(Chain):
        def forward(self, x):
            return super().forward(x[x[:, 0] > 0])

    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Exception, match="(?s)aten.*depends on data.*capture_dynamic") as caught,
    ):
        torch.compile(Chosen(), backend="rk", options=BUDGET)(torch.randn(16, 64))
    assert isinstance(caught.value.inner_exception, rk.CompileError)


def test_numbers_that_depend_on_data_are_refused_by_name():
    class Scaled(Chain):
        def forward(self, x):
            return super().forward(nn.functional.leaky_relu(x, x.mean().item()))

    with (
        torch._dynamo.config.patch(capture_scalar_outputs=True),
        pytest.raises(Exception, match="(?s)takes the number.*capture_scalar_outputs") as caught,
    ):
        torch.compile(Scaled(), backend="rk", options=BUDGET)(torch.randn(16, 64))
    assert isinstance(caught.value.inner_exception, rk.CompileError)


def test_nested_inputs_are_refused_by_name():
    rows = torch.nested.nested_tensor([torch.randn(2, 16), torch.randn(3, 16)], layout=torch.jagged)
    with pytest.raises(Exception, match="is a nested tensor") as caught:
        torch.compile(nn.Linear(16, 16), backend="rk", options=BUDGET)(rows)
    assert isinstance(caught.value.inner_exception, rk.CompileError)


@pytest.mark.filterwarnings("ignore:rk. no schedule")
@pytest.mark.parametrize("codegen", CODEGENS)
def test_nested_tensors_that_are_made_inside_of_rows_that_change(codegen):
    """Their sizes are symbols even where those of all inputs are known."""

    class Jagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            nested = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, x.shape[0]]))
            return torch.sin(self.linear(nested)).values().square().mean()

    batches, results = rows(6, 9, 6), []
    for about in ({"backend": "aot_eager"}, {"backend": "rk", "options": {**BUDGET, "codegen": codegen}}):
        given = iter(batches)
        compiled = lambda m: torch.compile(m, dynamic=True, **about)  # noqa: B023, E731
        results.append(train(Jagged, lambda: next(given), compiled, 3))  # noqa: B023
    assert equal(*results)


@pytest.mark.parametrize("codegen", ["fx", "inductor"])
def test_an_evaluation_of_other_sizes_is_that_of_these_sizes(codegen):
    linear = nn.Linear(16, 16)
    functions = [
        lambda x: linear(x).new_ones(x.shape).cumsum(0),
        lambda x: linear(x).flatten(),
        lambda x: linear(x).mean(0),
    ]
    for function in functions:
        torch._dynamo.reset()
        run = torch.compile(
            function, backend="rk", dynamic=True, options={"budget": "60%", "codegen": codegen}
        )
        with torch.no_grad():
            for rows in (6, 3):
                x = torch.randn(rows, 16)
                found, expected = run(x), function(x)
                assert found.shape == expected.shape
                torch.testing.assert_close(found, expected)
