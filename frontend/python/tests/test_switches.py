"""PyTorch's switches of kernels, changed by the caller between forward and backward: what runs again runs as
in forward, and backward itself as it would without a plan.
"""

import contextlib
import operator
from collections import Counter

import pytest
import torch
from torch import nn

import rk
from rk._graph import switches
from tests.codegens import CODEGENS


@contextlib.contextmanager
def precise():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def without_onednn():
    return torch.backends.mkldnn.flags(enabled=False, allow_tf32=False, fp32_precision="none")


def network():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GELU(), nn.Dropout(0.1)) for _ in range(3)]
    return nn.Sequential(*layers), torch.randn(2, 8, 16, 16)


def gradients(model, run, x, around):
    """With the context around forward, and nothing around backward."""
    torch.manual_seed(1)
    with around():
        loss = run(x).square().mean()
    loss.backward()
    return [rk.decheckpoint(one.grad).clone() for one in model.parameters()]


def of_eager(around):
    model, x = network()
    return gradients(model, model, x, around)


@pytest.mark.parametrize("around", [without_onednn, precise])
@pytest.mark.parametrize("codegen", CODEGENS)
def test_compiled(around, codegen):
    torch._dynamo.reset()
    model, x = network()
    options = {"budget": "1%", "on_infeasible": "best", "codegen": codegen}
    run = torch.compile(model, backend="rk", options=options)
    if codegen == "rk":
        with pytest.raises(rk.ExecutionError, match=r"torch.backends.mkldnn.* has been changed.*'fx'"):
            gradients(model, run, x, around)
    else:
        found = gradients(model, run, x, around)
        assert all(map(torch.equal, found, of_eager(around)))


@pytest.mark.parametrize("around", [without_onednn, precise])
def test_online(around):
    model, x = network()
    with rk.memory_budget(None) as whole:
        gradients(model, model, x, contextlib.nullcontext)
    model, x = network()
    with rk.memory_budget(int(whole.statistics()["peak_bytes"] * 0.6)) as context:
        found = gradients(model, model, x, around)
    assert context.statistics()["recomputations"] > 0
    assert all(map(torch.equal, found, of_eager(around)))


def test_a_chain_of_stages():
    model, x = network()
    chain = rk.Checkpointable(model)
    chain.measure(x)
    with pytest.raises(rk.BudgetError) as error:
        chain.compute_sequence(1)
    chain.compute_sequence(error.value.smallest_bytes)
    assert max(Counter(one.index for one in chain.sequence if one.kind in ("Fn", "CF", "Fe")).values()) > 1
    found = gradients(model, chain, x, without_onednn)
    assert all(map(torch.equal, found, of_eager(without_onednn)))


@pytest.mark.parametrize("name", switches.SWITCHES)
def test_each_switch_is_set_and_put_back(name):
    get, _ = switches.SWITCHES[name]
    match present := get():
        case bool():
            other = not present
        case int():
            other = present + 1
        case str():
            other = "ieee" if present != "ieee" else "bf16" if "mkldnn" in name else "tf32"
        case tuple():
            other = (not present[0], present[1])
        case _:
            other = torch.float64
    with switches.kept({name: other}):
        assert get() == other
    assert get() == present
    assert switches.differences({name: present}, {name: other}) == f"{name} ({present}, then {other})"


def test_a_gpu_has_nothing_to_do_with_the_threads_of_its_backward_pass():
    assert "torch.set_num_threads" in switches.now(torch.device("cpu"))
    assert "torch.set_num_threads" not in switches.now(torch.device("cuda"))


def test_a_graph_without_convolutions_and_recurrent_layers_does_not_depend_on_their_precisions():
    def names(*targets):
        found = switches.Relevant(targets, torch.device("cpu"))
        assert found.setting(found.values()).items() <= switches.now(torch.device("cpu")).items()
        return {one.split(".")[-2] for one in found.names if one.endswith("fp32_precision")}

    aten, other = torch.ops.aten, len
    assert names(operator.getitem, aten.mm.default) == {"matmul"}
    assert names(aten.mm.default, aten.convolution_backward.default) == {"matmul", "conv"}
    assert names(aten.mkldnn_rnn_layer.default) == {"matmul", "rnn"}
    assert names(other) == {"matmul", "conv", "rnn"}, "nothing is known of it"
