"""What only a GPU does, as far as it can be seen without one."""

import operator

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from rk._inductor.forecast import Forecast
from rk._plan import costs, measure


def test_where_the_mask_of_an_attention_begins_is_made_up_in_host_memory():
    graph = fx.Graph()
    query = graph.placeholder("query")
    target = torch.ops.aten._scaled_dot_product_efficient_attention.default
    call = graph.call_function(target, (query, query, query, None, True, 0.1, True))
    results = [graph.call_function(operator.getitem, (call, place)) for place in range(4)]
    with FakeTensorMode():
        fake = torch.empty(1, 2, 8, 8, device="cuda")
        call.meta["val"] = target(fake, fake, fake, None, True, 0.1, True)
    for place in (2, 3):
        results[place].meta["val"] = call.meta["val"][place]
        assert results[place].meta["val"].device.type == "cuda"
        assert costs._made_up(results[place]).device.type == "cpu"


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
