"""What ``make_all_graphs`` gives: the stages under the names of both versions of rk-GB."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from rk._codegen import bits
from rk._graph import capture
from rk._plan.options import Options
from rk._report import stages
from rk._report.execution import Stage
from rk._report.stages import StepGraph
from rk.errors import CompileError, OptionError, VerifyError
from rk.rkgb.blocks import Block, S_list_to_K_list_eco, cut


class Result:
    """A step at every stage. Graphs are made when they are asked for, and nothing of the model is run."""

    def __init__(
        self,
        model: Any,
        model_args: Any,
        model_kwargs: Mapping[str, Any] | None = None,
        budget: int | str | None = None,
        **options: Any,
    ) -> None:
        """Traces the model.

        Args:
            model: The model. Nothing of it is run.
            model_args: One input, a list or tuple of arguments, or a dict of keywords.
            model_kwargs: More inputs, by name.
            budget: Bytes, ``"2GiB"``, or a share such as ``"60%"``; without one there is no schedule.
            **options: Those of the backend.

        Raises:
            CompileError: The model is not one graph.
            OptionError: An option, a unit or a value is not known.
        """
        self.budget = budget
        self._options = Options.parse({**options, **({} if budget is None else {"budget": budget})})
        self._inputs: list[torch.Tensor] = []
        self._step = capture.step_of(model, inputs_of(model, model_args, model_kwargs), self._inputs)

    @functools.cached_property
    def B_graph(self) -> StepGraph:
        """Stage ``raw``."""
        return stages.raw(self._step, self._options)

    @functools.cached_property
    def D_graph(self) -> StepGraph:
        """Stage ``dataflow``."""
        return self.B_graph.at("dataflow")

    @functools.cached_property
    def S_graph(self) -> StepGraph:
        """Stage ``simplified``."""
        return self.D_graph.at("simplified")

    @functools.cached_property
    def K_graph(self) -> StepGraph:
        """Stage ``costed``."""
        return self.S_graph.at("costed")

    @functools.cached_property
    def scheduled(self) -> StepGraph:
        """Stage ``scheduled``.

        Raises:
            OptionError: No budget was given.
            BudgetError: Nothing fits into it.
        """
        if self.budget is None:
            raise OptionError("the step is scheduled within a budget: make_all_graphs(..., budget='60%')")
        return stages.scheduled(self._step, self._options)

    @functools.cached_property
    def S_graph_list(self) -> list[Block]:
        """The blocks."""
        return cut(self.S_graph)

    @functools.cached_property
    def K_graph_list(self) -> list[Block]:
        """The blocks with their costs."""
        return S_list_to_K_list_eco(self.S_graph_list)[1]

    @functools.cached_property
    def equivalent_classes(self) -> list[list[int]]:
        """The places of blocks that compute the same bits, together."""
        return S_list_to_K_list_eco(self.S_graph_list)[0]

    @functools.cached_property
    def list_ano_S(self) -> list[Block]:
        """The first block of each class."""
        return S_list_to_K_list_eco(self.S_graph_list)[2]

    # The names of rk-GB 2.
    raw_graph = R = property(lambda self: self.B_graph)
    forward_graph = F = property(lambda self: self.D_graph)
    simplified_graph = S = property(lambda self: self.S_graph)
    forward_and_backward_graph = FB = property(lambda self: self.K_graph)
    partitioned_structure = Ps = property(lambda self: self.S_graph_list)
    hierarchical_structure = Hs = property(lambda self: self.K_graph_list)

    def summary(self) -> str:
        """How many nodes, blocks and classes there are.

        Returns:
            Two lines for people.
        """
        blocks, classes = self.K_graph_list, self.equivalent_classes
        nodes = [len(one.nodes) for one in blocks]
        lines = [
            f"{len(blocks)} blocks of {len(classes)} classes: {classes}",
            f"{' + '.join(map(str, nodes)) or 0} = {sum(nodes)} nodes in blocks",
        ]
        return "\n".join(lines)

    def executed(self) -> Iterator[tuple[str, int]]:
        """Executes every stage, and compares results, gradients and buffers.

        Yields:
            The name of each stage, with the number of tensors that were compared.

        Raises:
            VerifyError: One of them differs from the graph as traced.
        """
        expected = self._run(None)
        found = {"B": self.B_graph, "D": self.D_graph, "S": self.S_graph, "K": self.K_graph}
        found["blocks"] = self.S_graph.at("blocks")
        if self.budget is not None:
            found["schedule"] = self.scheduled
        for name, graph in found.items():
            results = self._run(graph)
            different = [one for one, value in expected.items() if not bits.equal(value, results[one])]
            if different:
                raise VerifyError(f"stage {graph.stage} computes other bits in {', '.join(different[:5])}")
            yield f"{name} ({graph.stage})", len(expected)

    def _run(self, graph: StepGraph | None) -> dict[str, torch.Tensor]:
        """Results and buffers by name: of a stage, or of the joint graph as PyTorch runs it."""
        step = self._step
        real = [one for one in step.placeholders if one not in step.tangents]
        if len(real) != len(self._inputs) or any(one.is_meta for one in self._inputs):
            raise CompileError("the graph takes other tensors than the model, and cannot be executed alone")
        given = {str(node.target): one.detach().clone() for node, one in zip(real, self._inputs, strict=True)}
        with torch.random.fork_rng(devices={one.device for one in self._inputs if one.is_cuda}):
            torch.manual_seed(0)
            tangents = [_like(node.meta["val"], self._inputs[0].device) for node in step.tangents]
            if graph is None:
                with torch.no_grad():
                    made = fx.Interpreter(step.gm).run(*given.values(), *tangents, enable_io_processing=False)
                outputs, gradients = made[: len(step.outputs)], made[len(step.outputs) :]
                results = [*self._present(step.outputs, outputs), *tangents]
                results += self._present(step.gradients, gradients)
            else:
                constants = {name: one.clone() for name, one in step.gm.named_buffers()}
                results = Stage(graph.text).run({**constants, **given}, tangents)
        return {f"result {place}": one for place, one in enumerate(results)} | given

    @staticmethod
    def _present(nodes: list[Any], values: Any) -> list[torch.Tensor]:
        """What the dialect returns too: tensors, not numbers."""
        return [
            value
            for node, value in zip(nodes, values, strict=True)
            if isinstance(node, fx.Node) and isinstance(value, torch.Tensor)
        ]


def _like(fake: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A gradient of a result, drawn at random."""
    made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)
    return made.normal_() if made.is_floating_point() or made.is_complex() else made.zero_()


def inputs_of(model: Any, given: Any, more: Mapping[str, Any] | None) -> Any:
    """A sample as rk takes it, of arguments and keywords as rk-GB takes them."""
    if isinstance(given, (list, set)):
        given = tuple(given)
    if not more:
        return given
    args, kwargs = capture.arguments(given)
    names = [name for name in inspect.signature(model.forward).parameters if name not in more]
    return {**dict(zip(names, args, strict=False)), **kwargs, **more}
