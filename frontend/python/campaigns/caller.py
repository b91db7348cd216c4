"""Carries a program out: builds the model, trains it as its caller does, and notes every tensor."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from campaigns.pieces import PIECES, operators
from campaigns.program import Program

Compiler = Callable[[Any], Any]


class Model(nn.Module):
    """The layers of a program, one after the other."""

    def __init__(self, program: Program) -> None:
        """Parameters are drawn from the generator as it is."""
        super().__init__()
        self.skips = [one.skip for one in program.layers]
        self.output, self.names = program.output, program.takes()
        self.takes = [PIECES[one.piece].takes for one in program.layers]
        self.parts = nn.ModuleList(
            PIECES[one.piece].build(program.width, one.parameters) for one in program.layers
        )

    def forward(self, x: torch.Tensor, *given: torch.Tensor) -> Any:
        """Rows to whatever the program returns."""
        named = dict(zip(self.names, given, strict=True))
        values = [x]
        for part, takes, skip in zip(self.parts, self.takes, self.skips, strict=True):
            y = part(values[-1], *(named[name] for name in takes))
            if skip:
                y = y + values[max(0, len(values) - skip)]
            values.append(y)
        return self.returned(values)

    def returned(self, values: list[torch.Tensor]) -> Any:
        """The last value in the shape that the program asks for."""
        x, y, how = values[0], values[-1], self.output
        if how == "loss":
            return y.float().square().mean()
        if how == "losses":
            return y.float().square().mean(), y.float().abs().mean()
        if how == "tuple":
            return y, y.sin()
        if how == "dict":
            return {"rows": y, "best": y.argmax(1), "more": [y.t(), y.mean()], "name": "some"}
        if how == "with input":
            return y, x
        if how == "with view":
            return y, y[:, :2], x.view_as(x)
        if how == "with none":
            return None, y, 3
        if how == "with hidden":
            return (y, *values[1:-1])
        if how == "with buffer":
            return y, next(iter(self.buffers()), None)
        return (y, y.detach()) if how == "with detached" else y


def given(program: Program, rows: int, step: int) -> dict[str, torch.Tensor]:
    """What a step hands in beside its rows; the same in every step where it lasts."""
    source = torch.Generator().manual_seed(1000 + step)
    dtype, width = getattr(torch, program.dtype), program.width
    return {
        "mask": (torch.rand(rows, width, generator=source) > 0.3).to(dtype),
        "labels": torch.randint(width if width < 16 else 16, (rows,), generator=source),
    }


def lasting(program: Program) -> dict[str, torch.Tensor]:
    """What the caller keeps over all steps."""
    dtype, width = getattr(torch, program.dtype), program.width
    return {
        "scale": torch.full((), 0.75, dtype=dtype),
        "shift": torch.linspace(-1, 1, width, dtype=dtype),
        "state": torch.linspace(0, 1, width, dtype=dtype),
    }


def rows_of(program: Program, rows: int, step: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The rows of a step, and the leaf behind them that asks for a gradient, if any."""
    source = torch.Generator().manual_seed(step)
    dtype, width, how = getattr(torch, program.dtype), program.width, program.input

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=source).to(dtype)

    if how == "transposed":
        return normal(width, rows).t(), None
    if how == "expanded":
        return normal(1, width).expand(rows, width), None
    if how == "sliced":
        return normal(rows, 2 * width)[:, ::2], None
    if how == "offset":
        return normal(rows + 1, width)[1:], None
    x = normal(rows, width)
    if how == "leaf":
        return x.requires_grad_(), x
    if how == "computed":
        leaf = x.requires_grad_()
        return torch.sin(leaf), leaf
    return x, None


class Run:
    """One program in one way; ``notes`` are names and what was seen."""

    changes_before: tuple[int, int] | None = None
    """The first step, and round of it, in which the caller changes nothing any more; None: there is none."""
    uses_copies = False
    """Losses are made of copies of the outputs, which are older than what the caller changes."""
    _changes = True

    def __init__(self, program: Program, compiler: Compiler, context: Any = None) -> None:
        """``compiler`` makes a callable of a module or function; ``context`` is entered for every step."""
        self.program, self.context = program, context or contextlib.nullcontext()
        self.notes: list[tuple[str, Any]] = []
        self.warnings: list[str] = []
        operators.EFFECTS.clear()
        torch.manual_seed(program.seed % 2**31)
        dtype = getattr(torch, program.dtype)
        self.model = Model(program).to(dtype)
        self.kept = lasting(program)
        self.handles: list[Any] = []
        self._hook_up()
        if program.wrap == "function":
            model = self.model
            self.compiled = compiler(lambda x, *more: model(x, *more))
        elif program.wrap == "layers":
            self.compiled = self.model
            for index, part in enumerate(self.model.parts):
                self.model.parts[index] = compiler(part)
        else:
            self.compiled = compiler(self.model)
        trained = [one for one in self.model.parameters() if one.requires_grad]
        self.trained = trained
        self.optimizer = None
        if trained and program.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)
        elif trained and program.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(trained, lr=0.01)

    def train(self) -> Run:
        """All steps."""
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            try:
                for step, rows in enumerate(self.program.batches):
                    self._step(step, rows)
            finally:
                self.warnings = [str(one.message) for one in caught]
        self._note_state("end")
        self.note("generator", torch.get_rng_state())
        for name, part in self.model.named_modules():
            if isinstance(getattr(part, "generator", None), torch.Generator):
                self.note(f"generator of {name}", part.generator.get_state())
        self.note("effects", list(operators.EFFECTS))
        return self

    def note(self, name: str, value: Any) -> None:
        """Keeps copies of all tensors in a value, and what else is in it as text."""
        name = name.replace("_orig_mod.", "")
        for place, leaf in enumerate(pytree.tree_leaves(value)):
            self.notes.extend(_plain(f"{name}.{place}", leaf))

    def call(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> Any:
        """The compiled model on rows and what else it takes."""
        with self._casting(), self._saving():
            return self.compiled(x, *(more[name] for name in self.program.takes()))

    def _step(self, step: int, rows: int) -> None:
        program = self.program
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        else:
            self.model.zero_grad()
        for round_ in range(program.rounds):
            self._changes = self.changes_before is None or (step, round_) < self.changes_before
            with self.context:
                made = self._passes(step * 10 + round_, rows)
            for name, value in made:
                self.note(f"step {step} {name}", value)
        for name, one in self.model.named_parameters():
            self.note(f"step {step} gradient of {name}", one.grad)
        if self.optimizer is not None:
            self.optimizer.step()
        self._note_given(step)
        if program.evaluates:
            self._evaluate(step, rows)

    def _passes(self, turn: int, rows: int) -> list[tuple[str, Any]]:
        losses, leaves, made = [], [], []
        for number in range(self.program.forwards):
            x, leaf = rows_of(self.program, rows, turn * 10 + number)
            more = {**given(self.program, rows, turn), **self.kept}
            output = self.call(x, more)
            if "output" in self.program.hooks:
                for one in pytree.tree_leaves(output):
                    if isinstance(one, torch.Tensor) and one.requires_grad:
                        one.register_hook(lambda gradient: gradient * 2)
            read = pytree.tree_map_only(torch.Tensor, torch.clone, output) if self.uses_copies else output
            if self.program.change.startswith("output"):
                self._change(x, more, output)
            if "retain" in self.program.hooks:
                first = next(_with_gradient(output), None)
                if first is not None and not first.is_leaf:
                    first.retain_grad()
                    leaf = leaf if leaf is not None else first
            losses.append(loss_of(read))
            leaves.append(leaf)
            made.append((f"output {number}", output))
        if self.program.change and not self.program.change.startswith("output"):
            self._change(x, more, output)
        made.append(("losses", list(losses)))
        self._backward(losses)
        made.append(("input gradients", [None if one is None else one.grad for one in leaves]))
        made.append(("given", list(more.values())))
        return made

    def _backward(self, losses: list[torch.Tensor]) -> None:
        losses = [one for one in losses if one.requires_grad]
        if self.program.order == "sum" and losses:
            sum(one * (1 + 0.5 * place) for place, one in enumerate(losses)).backward()
            return
        for one in losses if self.program.order == "each" else reversed(losses):
            one.backward()

    def _evaluate(self, step: int, rows: int) -> None:
        how = self.program.evaluates
        x, _ = rows_of(self.program, rows, 77)
        more = {**given(self.program, rows, step), **self.kept}
        guard = torch.inference_mode() if how == "inference" else torch.no_grad()
        if how == "eval":
            self.model.eval()
        with guard:
            output = self.call(x.detach(), more)
            self.note(f"step {step} evaluation", output)
        self.model.train()

    def _change(self, x: torch.Tensor, more: dict[str, torch.Tensor], output: Any) -> None:
        if not self._changes:
            return
        what, how = self.program.change.split(" ", 1)
        tensors = {
            "buffers": list(self.model.buffers()),
            "frozen": [one for one in self.model.parameters() if not one.requires_grad],
            "input": [x],
            "output": [one for one in pytree.tree_leaves(output) if isinstance(one, torch.Tensor)][:1],
        }.get(what) or [more[name] for name in (what,) if name in more]
        with torch.no_grad():
            for one in tensors:
                if not hasattr(one, "__tensor_flatten__"):
                    _changed(one, how)

    def _hook_up(self) -> None:
        hooks = self.program.hooks
        for one in self.model.parameters():
            if one.requires_grad and "parameter" in hooks:
                one.register_hook(lambda gradient: gradient * 0.5)
            if one.requires_grad and "accumulated" in hooks:
                one.register_post_accumulate_grad_hook(_halved)
        if "module forward" in hooks:
            self.model.parts[-1].register_forward_hook(lambda module, inputs, output: output * 1.5)
        if "module backward" in hooks:
            self.model.parts[0].register_full_backward_hook(lambda module, into, out: None)

    @contextlib.contextmanager
    def _saving(self) -> Any:
        if "saved copy" in self.program.hooks:
            with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda one: one):
                yield
        elif "saved pickle" in self.program.hooks:
            with torch.autograd.graph.saved_tensors_hooks(_packed, _unpacked):
                yield
        else:
            yield

    def _casting(self) -> Any:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.program.autocast)

    def _note_given(self, step: int) -> None:
        self.note(f"step {step} given", list(self.kept.values()))

    def _note_state(self, when: str) -> None:
        for name, one in itertools.chain(self.model.named_parameters(), self.model.named_buffers()):
            self.note(f"{when} {name}", one)


def loss_of(output: Any) -> torch.Tensor:
    """A number from whatever a model returns."""
    leaves = list(_with_gradient(output))
    if len(leaves) == 1 and leaves[0].dim() == 0:
        return leaves[0]
    if not leaves:
        return next(one for one in pytree.tree_leaves(output) if isinstance(one, torch.Tensor)).float().sum()
    return sum(one.abs().float().square().mean() for one in leaves)


def _with_gradient(output: Any) -> Any:
    return (one for one in pytree.tree_leaves(output) if isinstance(one, torch.Tensor) and one.requires_grad)


def _changed(one: torch.Tensor, how: str) -> None:
    """Other numbers; of what is no floating-point number, as of labels, the same ones in another order."""
    if not one.is_floating_point():
        other = one.flip(0) if one.dim() else one.clone()
        if how == "set":
            one.data = other
        else:
            (one if how == "in place" else one.data).copy_(other)
        return
    if how == "in place":
        one.add_(0.5)
    elif how == "data":
        one.data.add_(0.5)
    else:
        one.data = one.data + 0.5


def _halved(parameter: torch.Tensor) -> None:
    parameter.grad.mul_(0.5)


def _packed(one: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(one, file)
    return file.getvalue()


def _unpacked(text: bytes) -> torch.Tensor:
    return torch.load(io.BytesIO(text), weights_only=False)


def _plain(name: str, leaf: Any) -> list[tuple[str, Any]]:
    """Ordinary dense copies of a tensor: of its parts, if it is a wrapper; what is no tensor as text."""
    if not isinstance(leaf, torch.Tensor):
        return [(name, repr(leaf))]
    from rk._online.budget import decheckpoint

    found = [(f"{name}: asks for a gradient", leaf.requires_grad)]
    leaf = decheckpoint(leaf).detach()
    if hasattr(leaf, "__tensor_flatten__"):
        for inner in leaf.__tensor_flatten__()[0]:
            found += _plain(f"{name}.{inner}", getattr(leaf, inner))
        return found
    leaf = leaf.to_dense() if leaf.layout is not torch.strided else leaf
    return [*found, (name, leaf.clone())]
