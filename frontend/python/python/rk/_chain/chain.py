"""A sequence of modules as a chain: what each stage costs, and in which order to run it within a budget.

The chain of stages 1 to L with the loss behind it goes to the solver ``rotor`` as a graph: stage ``i``
forward makes its output ``x`` and all else that its backward reads (``xbar``), and its backward makes the
gradient of its input. A run whose ``xbar`` nobody reads is one without a graph (``Fn``, ``CF``), the other
is ``Fe``. That a run without a graph is planned as if it made ``xbar`` is no loss: some later run of the
stage makes it, with the same checkpoints beside it.

Source: Beaumont et al., "Optimal re-materialization strategies for heterogeneous chains", ACM TOMS 2024.
"""

from __future__ import annotations

import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from rk import _rk
from rk._chain import stand_ins
from rk._chain.stage_state import StageState, detached, kept_still, named, read_by_backward, storages_of
from rk._plan import measure, roofline
from rk._plan.options import Options


@dataclasses.dataclass(frozen=True)
class StageCost:
    """What one stage takes: seconds, bytes."""

    name: str
    forward_seconds: float
    backward_seconds: float
    output: int
    """Of the result, ``x``."""
    saved: int
    """Of what a run with a graph leaves beside the result: ``xbar`` without ``x``."""
    forward_workspace: int
    backward_workspace: int
    state: int
    """Of generators, updated buffers, and what the caller may change, kept when the stage runs again."""
    checked: frozenset[str] = frozenset()
    """Parameters, buffers and inputs that backward reads: autograd notices when they change before it."""
    graded: bool = False
    """Whether it takes other kernels where no gradient is recorded, so that every run records one:
    ``nn.LSTM`` on a CPU, PyTorch's encoder layers in evaluation.
    """


@dataclasses.dataclass(frozen=True)
class Operation:
    """One step of a sequence: ``Fn`` runs a stage and forgets its input, ``CF`` keeps it, ``Fe`` keeps all
    that backward needs, ``B`` runs backward, ``L`` is the loss, which the caller computes.
    """

    kind: str
    index: int

    def __str__(self) -> str:
        """As rotor prints it."""
        return self.kind if self.kind == "L" else f"{self.kind}_{self.index}"


class Order(list[Operation]):
    """Operations in the order in which they run, printed as rotor does."""

    def __str__(self) -> str:
        """As rotor prints it."""
        return f"[{', '.join(map(str, self))}]"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class ChainPlan:
    """A sequence with what the judge says of it."""

    operations: Order
    peak: int
    seconds: float
    base_peak: int
    base_seconds: float


class OnCopy(nn.Module):
    """A stage that overwrites its input, given a copy, because the input may be needed again."""

    def __init__(self, stage: nn.Module) -> None:
        """``stage`` is called as it is."""
        super().__init__()
        self.stage = stage

    def forward(self, value: Any) -> Any:
        """The result on a copy."""
        return self.stage(pytree.tree_map(lambda one: one.clone() if _is_tensor(one) else one, value))


def measured(names: Sequence[str], modules: list[nn.Module], sample: Any) -> list[StageCost]:
    """Runs every stage forward and backward on a sample, and puts everything back. Stages that overwrite
    their inputs are replaced in ``modules`` by :class:`OnCopy`. With ``rk.config.reproducible`` times are
    those of :mod:`rk._plan.roofline`.
    """
    device = next((one.device for one in pytree.tree_leaves(sample) if _is_tensor(one)), None)
    device = device or torch.device("cpu")
    value, costs, needs = sample, [], any(map(measure.differentiable, pytree.tree_leaves(sample)))
    with kept_still(modules, device):
        for at, (name, module) in enumerate(zip(names, list(modules), strict=True)):
            if _overwrites(module, value):
                module = modules[at] = OnCopy(module)
            needs = needs or any(one.requires_grad for one in module.parameters())
            theirs = None if storages_of(value).isdisjoint(storages_of(sample)) else value
            cost, value = _measure(name, module, value, needs, device, theirs)
            costs.append(cost)
    return costs


def _measure(
    name: str, module: nn.Module, value: Any, needs: bool, device: torch.device, theirs: Any
) -> tuple[StageCost, Any]:
    checked = _checked(module, detached(value, needs))
    state = StageState(module, device, True, checked, theirs)

    parameters = stand_ins.trained(module)

    def forward(graph: bool) -> tuple[Any, Any]:
        given = detached(value, needs)
        own = stand_ins.in_place_of(module, parameters if graph else [])
        with torch.set_grad_enabled(graph), own as leaves:
            return (given, leaves), module(given)

    with measure.memory(device) as light, _clock(device) as running:
        alone = forward(graph=False)[1]
    state.first_run_done()
    output = bytes_of(alone)
    alone = pytree.tree_map(lambda one: one.cpu() if _is_tensor(one) else one, alone)
    with state.again(), measure.memory(device) as full:
        (_given, leaves), result = forward(graph=True)
    graded = not _same(alone, result)
    del alone  # or its end would be measured below
    if graded:
        _check_repeats(name, result, lambda: forward(graph=True)[1], state)
    for leaf in leaves:
        # Gradients of parameters are in no limit; what they are made of is.
        leaf.grad = torch.zeros_like(leaf)
    roots = [one for one in pytree.tree_leaves(result) if measure.differentiable(one)]
    back, backward_seconds = measure.Memory(), 0.0
    if roots:
        gradients = [torch.zeros_like(one) for one in roots]
        with measure.memory(device) as back, _clock(device) as backwards:
            torch.autograd.backward(roots, gradients)
        backward_seconds = backwards.seconds
    cost = StageCost(
        name=name,
        forward_seconds=running.seconds,
        backward_seconds=backward_seconds,
        output=output,
        saved=max(full.left - output, 0),
        forward_workspace=max(
            (full if graded else light).peak - output, full.peak - max(full.left, output), 0
        ),
        backward_workspace=max(back.peak - bytes_of(value), 0),
        state=state.bytes,
        checked=checked,
        graded=graded,
    )
    return cost, detached(result, False)


def _same(value: Any, other: Any) -> bool:
    pairs = zip(pytree.tree_leaves(value), pytree.tree_leaves(other), strict=True)
    return all(torch.equal(_bytes(one), _bytes(another)) for one, another in pairs if _is_tensor(one))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().reshape(-1).clone().view(torch.uint8)


def _check_repeats(name: str, result: Any, run: Callable[[], Any], state: StageState) -> None:
    """Warns of a stage whose second run is not the first one: it depends on what nobody knows of."""
    with state.again():
        repeated = _same(result, run())
    if not repeated:
        warnings.warn(
            f"rk: stage {name} gives other bits when it runs again on the same input, so its gradients may "
            "not be those without a chain: it draws from a generator, or counts, outside of the module's "
            "attributes, or takes a kernel whose sums have no order",
            stacklevel=2,
        )


def _checked(module: nn.Module, given: Any) -> frozenset[str]:
    saved = read_by_backward(module(given))
    tensors = named(module, given)
    return frozenset(name for name, one in tensors.items() if storages_of(one) <= saved)


def _overwrites(module: nn.Module, value: Any) -> bool:
    given = pytree.tree_map(lambda one: one.detach().clone() if _is_tensor(one) else one, value)
    tensors = list(filter(_is_tensor, pytree.tree_leaves(given)))
    before = [one._version for one in tensors]
    with torch.no_grad():
        module(given)
    return [one._version for one in tensors] != before


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class _Stopwatch:
    """The system's clock, which waits for the device."""

    seconds = 0.0

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> _Stopwatch:
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self.device.type != "cpu":
            torch.get_device_module(self.device).synchronize(self.device)
        self.seconds = time.perf_counter() - self.start


def _clock(device: torch.device) -> _Stopwatch | roofline.Clock:
    return roofline.Clock() if Options.parse(None).reproducible else _Stopwatch(device)


def bytes_of(value: Any) -> int:
    """Bytes of the storages of a value, each once."""
    tensors = list(filter(_is_tensor, pytree.tree_leaves(value)))
    return sum({one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in tensors}.values())


def plan(costs: Sequence[StageCost], budget: int, sample_bytes: int, loss_bytes: int = 0) -> ChainPlan:
    """The sequence that takes the least time within ``budget`` bytes, besides the sample.

    ``sample_bytes`` is the size of the gradient of the sample; ``loss_bytes`` are needed by the loss. Raises
    BudgetError when nothing fits.
    """
    graph = graph_of(costs, sample_bytes, loss_bytes)
    answer = json.loads(_rk.plan(json.dumps(graph), budget=str(int(budget)), solver="rotor"))
    return ChainPlan(
        operations=Order(operations_of(answer["schedule"], len(costs))),
        peak=answer["peak"],
        seconds=answer["time"] * 1e-9,
        base_peak=answer["base_peak"],
        base_seconds=answer["base_time"] * 1e-9,
    )


def graph_of(costs: Sequence[StageCost], sample_bytes: int, loss_bytes: int) -> dict[str, Any]:
    """Stage ``i`` forward is node ``i``, the loss node ``L``, stage ``i`` backward node ``2L - i``."""
    length, nodes = len(costs), []

    def node(name: str, kind: str, seconds: float, workspace: int, outputs: list[int], deps: Any) -> None:
        about = {"id": len(nodes), "name": name, "kind": kind, "time": max(round(seconds * 1e9), 1)}
        sizes = [{"bytes": size} for size in outputs]
        nodes.append({**about, "workspace": workspace, "outputs": sizes, "deps": deps})

    for i, cost in enumerate(costs):
        before = [[i - 1, 0]] if i > 0 else []
        outputs = [cost.output, cost.saved]
        node(cost.name, "fwd", cost.forward_seconds, cost.forward_workspace, outputs, before)
        nodes[-1]["state"] = cost.state
    node("loss", "fwd", 0, loss_bytes, [costs[-1].output], [[length - 1, 0]])
    nodes[-1]["once"] = True
    # The gradient of the result is the autograd engine's until backward ends.
    nodes[-1]["outputs"][0]["pinned"] = True
    for i in reversed(range(length)):
        reads = [[len(nodes) - 1, 0], [i, 0], [i, 1]] + ([[i - 1, 0]] if i > 0 else [])
        size = costs[i - 1].output if i > 0 else sample_bytes
        cost = costs[i]
        node(f"{cost.name}.backward", "bwd", cost.backward_seconds, cost.backward_workspace, [size], reads)
        nodes[-1]["once"] = True
    return {"name": "chain", "time_unit": "ns", "nodes": nodes}


def operations_of(schedule: Sequence[int], length: int) -> Iterator[Operation]:
    """What each run of the schedule has to keep, from who reads what until it is made again."""
    for at, node in enumerate(schedule):
        if node == length:
            yield Operation("L", length)
        elif node > length:
            yield Operation("B", 2 * length - node)
        else:
            again = next((k for k in range(at + 1, len(schedule)) if schedule[k] == node), len(schedule))
            graph = (2 * length - node) in schedule[at:again]
            # The input is read again before it is made again: by this stage's next run, or by its backward.
            made = next((k for k in range(at + 1, len(schedule)) if schedule[k] == node - 1), len(schedule))
            stays = node == 0 or any(schedule[k] in (node, 2 * length - node) for k in range(at + 1, made))
            yield Operation("Fe" if graph else "CF" if stays else "Fn", node)
