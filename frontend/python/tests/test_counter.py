"""What PyTorch allocates on the CPU is counted to the byte, by either counter, with each known torch."""

import subprocess
import sys

import pytest
import torch
from codegens import WHY_NOT

from rk import _torch
from rk._run import observe

COUNTERS = ["_rk_memory"] if WHY_NOT else ["_rk_memory", "_rk_runtime"]

COUNTING = """
import importlib, sys, threading
import torch
from torch.autograd import profiler

counts = importlib.import_module("rk." + sys.argv[1])
early = torch.zeros(1000)
assert counts.memory() == (0, 0)
counts.count_memory()
counts.count_memory()
one = torch.empty(1000, 7)
assert counts.memory() == (28000, 28000)
assert one.data_ptr() % 64 == 0
del early, one  # what was there before is not missed
assert counts.memory() == (0, 28000)
assert counts.memory() == (0, 0)

storage = torch.empty(77, dtype=torch.uint8).untyped_storage()
storage.resize_(200)
assert counts.memory() == (200, 277)
empty = torch.empty(0)
assert counts.memory() == (200, 200)
going = torch.empty(25)
assert counts.memory(100) == (300, 300)
del going  # it was said to leave, and is not in the most that follows
assert counts.memory() == (200, 200)

with profiler.profile(profile_memory=True) as profile:
    two = torch.empty(500)
    del two
told = [event.cpu_memory_usage for event in profile.function_events if event.name == "aten::empty"]
assert told == [2000], told
counts.memory()


def work():
    for _ in range(500):
        torch.empty(100)


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
level, most = counts.memory()
assert level == 200 and 600 <= most <= 200 + 4 * 400, (level, most)

# oneDNN allocates by raw_allocate, and asks for the deleter.
layer = torch.nn.Conv2d(3, 8, 3)
layer(torch.randn(2, 3, 16, 16)).relu().sum().backward()
del layer
assert counts.memory()[0] == 200
"""


@pytest.mark.parametrize("name", COUNTERS)
def test_every_byte_is_counted(name):
    """In a process of its own, because nobody can stop counting."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, name], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


GRADIENTS = """
import sys

import torch
from torch import nn

from rk._run import group

torch.manual_seed(0)
blocks = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(3)))
batch = torch.randn(16, 64)
blocks(batch).sum().backward()
for block in blocks:
    block.compile(backend="rk", options={"budget": "4MiB"})
if sys.argv[1] == "early":
    blocks.zero_grad()
loss = blocks(batch).sum()
blocks.zero_grad()
loss.backward()
(shared,) = group.GROUPS.values()
print(shared.step.peak - shared.step.floor)
"""


def test_gradients_of_before_counting_are_not_missed():
    """Nothing goes when they do, though Python may not have seen them before."""

    def taken(when):
        command = [sys.executable, "-c", GRADIENTS, when]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout

    assert taken("early") == taken("late")


def test_the_runtime_counts_where_it_is_linked_to_this_torch():
    assert observe.counter().__name__ == f"rk.{COUNTERS[-1]}"


def test_another_torch_that_was_seen_is_counted_by_its_allocators_alone(monkeypatch):
    monkeypatch.setattr(_torch, "RUNTIME", "2.0.0")
    assert observe.counter().__name__ == "rk._rk_memory"


def test_nothing_counts_with_a_torch_that_was_never_seen(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.999.0")
    assert observe.counter() is None
    assert observe.count() is None


@pytest.mark.parametrize("missing", COUNTERS)
def test_a_counter_that_cannot_be_loaded_is_told_once(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, f"rk.{missing}", None)
    observe._tell_missing.cache_clear()
    if missing == "_rk_memory":
        monkeypatch.setattr(_torch, "RUNTIME", "2.0.0")
    with pytest.warns(UserWarning, match=f"rk.{missing} is a part of rk .* cannot be loaded") as told:
        found = [observe.counter(), observe.counter()]
    assert len(told) == 1
    assert found == [None if missing == "_rk_memory" else sys.modules["rk._rk_memory"]] * 2


ALONE = """
import torch
from rk._plan import living
from rk._run import observe, parameters
import rk

asked = []
objects = living.objects
living.objects = lambda classes: asked.append(classes) or objects(classes)
layer = torch.nn.Linear(8, 8)
step = rk.compile(torch.nn.Sequential(layer, torch.nn.GELU()), budget="100%")
for _ in range(2):
    step(torch.randn(4, 8)).sum().backward()
assert layer.weight.grad is not None
assert not asked, asked
assert observe.uncounted.cache_info().currsize == 0
"""


def test_one_graph_alone_is_not_counted_and_nobody_looks_for_parameters():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
