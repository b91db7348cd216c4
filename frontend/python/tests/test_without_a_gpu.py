"""What only a GPU does, as far as it can be seen without one."""

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from rk._graph import made_up
from rk._inductor.forecast import Forecast
from rk._plan import costs, measure


def test_where_the_mask_of_an_attention_begins_is_made_up_in_host_memory():
    """In a backward graph it is an argument: nothing there says whose result it is."""
    graph, target = fx.Graph(), torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    names = ["grad_out_", "query", "key", "value", "out", "logsumexp"]
    operands = {name: graph.placeholder(name) for name in (*names, "philox_seed", "philox_offset")}
    with FakeTensorMode():
        for name, node in operands.items():
            node.meta["val"] = torch.empty(1, 2, 8, 8, device="cuda" if "philox" in name else "cpu")
    given = [*[operands[name] for name in names[:4]], None, *list(operands.values())[4:], 0.1, [True] * 4]
    call = graph.call_function(target, tuple(given))
    args, _ = made_up.arguments(call)
    made = [one for one in args if isinstance(one, torch.Tensor)]
    assert len(made) == len(operands) and {one.device.type for one in made} == {"cpu"}


def test_a_history_of_the_allocator_is_read_as_the_events_of_the_cpu_are():
    gradient = torch.empty(4)
    place = gradient.untyped_storage().data_ptr()
    history = [
        {"action": "segment_alloc", "addr": 1, "size": 2**21},
        {"action": "alloc", "addr": 512, "size": 700},
        {"action": "alloc", "addr": place, "size": 16},
        {"action": "free_requested", "addr": 512, "size": 700},
        {"action": "free_completed", "addr": 512, "size": 700},
        {"action": "alloc", "addr": 512, "size": 512},
    ]
    seen = object.__new__(measure.DeviceAddresses)
    seen.changes = measure.changes_in(history)
    assert seen.peak([]) == 1024 + 512
    assert seen.peak([gradient]) == 1024


def test_the_first_run_of_kernels_on_a_gpu_is_not_measured():
    forecast = Forecast(strict=True)
    forecast.planned(100, torch.device("cuda", 0), [0])
    forward, backward = forecast.forward(lambda args: args), forecast.backward(lambda args: args)
    forward([]), backward([])
    assert forecast.measured is None and not forecast.settled
    forecast.check()


def test_libraries_settle_without_a_trace():
    state = torch.get_rng_state()
    with torch.no_grad(), FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        costs.settle(torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)
