"""The made-up values that costs are measured on."""

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from rk._graph import made_up
from rk._plan import costs


def test_rows_are_those_of_a_matrix():
    """LAPACK counts rows from one and does not look: row zero lies before the matrix."""
    graph = fx.Graph()
    given = torch.linalg.lu_factor(torch.eye(8)), torch.linalg.ldl_factor(torch.eye(8))
    targets = torch.ops.aten.linalg_lu_solve.default, torch.ops.aten.linalg_ldl_solve.default
    for target, (factor, pivots) in zip(targets, given, strict=True):
        nodes = [graph.placeholder(f"{target.name()[6:]}_{place}") for place in range(3)]
        for node, value in zip(nodes, (factor, pivots, torch.eye(8)), strict=True):
            node.meta["val"] = value
        (_, rows, _), _ = made_up.arguments(graph.call_function(target, tuple(nodes)))
        assert rows.min() >= 1 and rows.max() <= 8


def test_what_a_library_writes_for_itself_is_as_long_as_it_left_it():
    """oneDNN's backward pass reads where the tracing says that there is nothing, and crashes."""
    aten = torch.ops.aten

    def layer(x, weights, recurrent, bias, state, gradient):
        about = (2, 4, 1, True)
        given = (x, weights, recurrent, bias, bias, state, state)
        made = aten.mkldnn_rnn_layer(*given, False, [], *about, False, False, True)
        more = (gradient, None, None, False, *about, True, False, [], False)
        return aten.mkldnn_rnn_layer_backward(*given, *made[:3], *more, made[3])

    sizes = ((4, 6, 4), (16, 4), (16, 4), (16,), (6, 4), (4, 6, 4))
    traced = make_fx(layer, tracing_mode="fake")(*(torch.randn(one) for one in sizes))
    (backward,) = traced.graph.find_nodes(op="call_function", target=aten.mkldnn_rnn_layer_backward.default)
    assert backward.args[-1].meta["val"].numel() == 0
    (args, _), results = made_up.arguments(backward), made_up.result(backward)
    assert args[-1].numel() > 0 and args[-1].dtype is torch.uint8
    assert [one.shape for one in results[:3]] == [(4, 6, 4), (16, 4), (16, 4)]


def test_a_result_that_a_call_leaves_out_takes_nothing():
    """A convolution that reads the user's images has no gradient for them."""

    def gradients(of, images, weight):
        return torch.ops.aten.convolution_backward(
            of, images, weight, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, True]
        )[1:]

    sizes = ((2, 8, 8, 8), (2, 8, 8, 8), (8, 8, 3, 3))
    traced = make_fx(gradients, tracing_mode="fake")(*(torch.randn(one) for one in sizes))
    (call,) = traced.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution_backward.default)
    device = torch.device("cpu")
    with made_up.alone(device):
        some, all_of_them = (costs._measure(call, device, one, False, False) for one in ((1, 2), (0, 1, 2)))
    assert some.workspace == all_of_them.workspace
