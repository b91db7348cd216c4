"""What the ranks of a distributed run agree on, in the store that they have anyway."""

import pytest
import torch
import torch.distributed as dist
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from rk._graph.step import Step
from rk._plan import ranks, schedule
from rk.errors import BudgetError


def group_with(store):
    dist.init_process_group("fake", rank=0, world_size=2, store=store)


@pytest.fixture
def store():
    """That of two processes, of which this is one; nobody waits for the other."""
    made = dist.HashStore()
    group_with(made)
    yield made
    dist.destroy_process_group()


def name():
    return "answer"


@pytest.mark.usefixtures("store")
def test_the_first_answer_counts():
    assert ranks.read(name) is None
    assert ranks.agreed(name, lambda: {"runs": [[1, True]]}) == {"runs": [[1, True]]}
    assert ranks.agreed(name, lambda: pytest.fail("there is an answer")) == {"runs": [[1, True]]}
    assert ranks.offer(name, {"runs": []}) == {"runs": [[1, True]]}, "who comes late takes what is there"


@pytest.mark.usefixtures("store")
def test_a_refusal_is_an_answer():
    def refused():
        error = BudgetError("nothing fits")
        error.smallest_bytes = 12
        raise error

    for find in (refused, lambda: pytest.fail("there is an answer")):
        with pytest.raises(BudgetError, match="nothing fits") as caught:
            ranks.agreed(name, find)
        assert caught.value.smallest_bytes == 12


def step_on(device):
    graph = fx.Graph()
    with FakeTensorMode():
        given = graph.placeholder("x")
        given.meta["val"] = torch.empty(4, device=device)
        made = graph.call_function(torch.ops.aten.zeros.default, ([4],), {"device": torch.device(device)})
        made.meta["val"] = torch.empty(4, device=device)
    graph.output((made,))
    return Step(fx.GraphModule({}, graph), None, [])


def test_a_step_is_of_one_kind_on_all_devices_of_a_kind():
    first, second, other = map(step_on, ("cuda:0", "cuda:1", "cpu"))
    assert first.kind == second.kind != other.kind
    assert first.fingerprint != second.fingerprint


def model():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))


def test_a_plan_is_taken_from_the_rank_that_was_faster(store, tmp_path, monkeypatch):
    def planned(folder):
        torch._dynamo.reset()
        network = model()
        options = {"budget": "80%", "cache_dir": str(tmp_path / folder)}
        torch.compile(network, backend="rk", options=options)(torch.randn(64, 64)).sum().backward()
        return store.num_keys(), (tmp_path / folder).exists()

    published, measured = planned("first")
    assert published > 0 and measured
    # On another machine the same extension was installed at another time.
    monkeypatch.setattr(schedule, "_WRITTEN", 0)
    assert planned("second") == (published, True)
    plans = [len(list((tmp_path / one).glob("plan-*"))) for one in ("first", "second")]
    assert plans[0] > 0 == plans[1], "the second had nothing to plan"


def test_a_store_that_fails_is_told_and_nothing_else():
    group_with(FakeStore())
    try:
        with pytest.warns(UserWarning, match="this rank plans on its own"):
            assert ranks.agreed(name, lambda: {"peak": 3}) == {"peak": 3}
    finally:
        dist.destroy_process_group()


def test_one_process_asks_nobody():
    assert ranks.agreed(lambda: pytest.fail("no name is needed"), lambda: {"peak": 3}) == {"peak": 3}
