"""What a compiled graph will allocate and free, read from Inductor's wrapper before a kernel is compiled."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from torch import fx
from torch._inductor import ir
from torch._inductor.codegen import wrapper as lines
from torch._inductor.virtualized import V

from rk._graph import joint
from rk._inductor import lowering
from rk.errors import CompileError


def _known(*names: str) -> tuple[type, ...]:
    """Classes of lines that this version of PyTorch has."""
    return tuple(getattr(lines, name) for name in names if hasattr(lines, name))


CALLS = _known("KernelCallLine", "IndexPutFallbackLine", "ScatterFallbackLine")
NO_MEMORY = _known(
    *("CommentLine", "NullLine", "KernelDefinitionLine", "EnterDeviceContextManagerLine"),
    *("ExitDeviceContextManagerLine", "SymbolicCallArgLine", "AssertSizeStrideLine", "LineContext"),
    *("GroupedAssertSizeStrideLine", "AssertAlignmentLine", "AssertDivByZeroLine"),
    *("UnbackedSymbolDefsLine", "DynamicScalarLine"),
)
HARMLESS = (
    "#",
    "assert_size_stride(",
    "assert_alignment(",
    "with torch.cuda._DeviceGuard",
    "torch.cuda.set_device",
)
"""How code begins that takes no memory."""
DRAWS = re.compile(r"torch\.ops\.aten\.bernoulli_\.\w+\((\w+), ")


@dataclasses.dataclass(eq=False)
class Storage:
    """An allocation."""

    size: int
    names: set[str]
    counts: bool = True
    """False for gradients of parameters, which a budget leaves out."""


@dataclasses.dataclass
class Half:
    """One pass, replayed."""

    peak: int = 0
    """The most bytes in use, with those that it found there."""
    holder: str = ""
    """The kernel that runs then."""
    accumulating: int = 0
    """The most bytes where gradients of parameters count as well, because they are added to others."""
    results: list[Storage | None] = dataclasses.field(default_factory=list)
    """Per result the allocation that it lies in; None for arguments and constants."""
    kernels: int = 0


class Replay:
    """Follows the lines of a wrapper."""

    def __init__(self, alignment: int, workspace: Callable[..., int]) -> None:
        """``workspace`` says what a call asks for besides its results, given what no budget counts."""
        self.alignment, self._workspace = alignment, workspace
        self._uncounted: Container[fx.Node] = ()
        self.storages: dict[str, Storage] = {}
        self.tuples: dict[str, list[str]] = {}
        self.events: list[tuple[Storage | None, int, str]] = []
        """What happens in order: an allocation that comes or goes, or a call and its workspace."""
        self.kernels = 0

    def half(
        self,
        code: Sequence[Any],
        *,
        found: Iterable[tuple[str, Storage]] = (),
        held: Iterable[Storage] = (),
        uncounted: Iterable[int] = (),
    ) -> Half:
        """Replays the graph that is being compiled. ``found`` are the arguments that an earlier pass made,
        ``held`` is what the caller holds all the while, ``uncounted`` are the results that no budget counts.
        """
        found, held = list(found), list(held)
        there = {id(storage): storage for storage in (*held, *(one for _, one in found))}
        for storage in there.values():
            storage.names.clear()
        for storage in held:
            storage.names.add("caller")
        for name, storage in found:
            storage.names.add(name)
            self.storages[name] = storage
        uncounted = list(uncounted)
        self._uncounted = {_origin_of(V.graph.graph_outputs[place]) for place in uncounted}
        for line in code:
            self._line(line)
        results = [self._storage_of(one) for one in V.graph.graph_outputs]
        for place in uncounted:
            if results[place] is not None:
                results[place].counts = False
        return self._added_up(sum(one.size for one in there.values() if one.counts), results)

    def _added_up(self, live: int, results: list[Storage | None]) -> Half:
        half = Half(live, "the hand-over", live, results, self.kernels)
        gradients = 0
        for storage, size, name in self.events:
            if storage is not None:
                live += size if storage.counts else 0
                gradients += 0 if storage.counts else size
            most = live + (size if storage is None else 0)
            half.accumulating = max(half.accumulating, most + gradients)
            if most > half.peak:
                half.peak, half.holder = most, name
        return half

    def _storage_of(self, output: Any) -> Storage | None:
        return self.storages.get(_name_of(output))

    # Memory.

    def rounded(self, size: int) -> int:
        """What the allocator takes for so many bytes."""
        return -(-size // self.alignment) * self.alignment

    def _allocate(self, name: str, size: int) -> None:
        size = self.rounded(size)
        self.storages[name] = storage = Storage(size, {name})
        self.events.append((storage, size, name))

    def _share(self, new: str, old: str) -> None:
        storage = self.storages.get(old)
        if storage is not None:
            storage.names.add(new)
            self.storages[new] = storage

    def _free(self, name: str) -> None:
        for part in self.tuples.pop(name, ()):
            self._free(part)
        storage = self.storages.get(name)
        if storage is not None and name in storage.names:
            storage.names.discard(name)
            if not storage.names:
                self.events.append((storage, -storage.size, name))

    def _call(self, name: str, workspace: int) -> None:
        self.kernels += 1
        self.events.append((None, workspace, name))

    def workspace(self, kernel: Any) -> int:
        """What a kernel that is not Inductor's own asks for besides its results."""
        return self._workspace(kernel, self._uncounted)

    # Lines.

    def _line(self, line: Any) -> None:
        if isinstance(line, lines.AllocateLine):
            self._allocate(line.node.get_name(), _size(line.node))
        elif isinstance(line, lines.ReuseLine):
            self._share(line.reused_as.get_name(), line.node.get_name())
            if line.delete_old:
                self._free(line.node.get_name())
        elif isinstance(line, lines.ReinterpretLine):
            self._share(line.reused_as.get_name(), line.node.get_name())
        elif isinstance(line, lines.FreeIfNotReusedLine):
            if not line.is_reused:
                self._free(line.node.get_name())
        elif isinstance(line, lines.FreeLine):
            self._free(line.node.get_name())
        elif isinstance(line, lines.ExternKernelAllocLine):
            self._extern(line.node)
        elif isinstance(line, lines.ExternKernelOutLine):
            self._call(_called(line.node), self.workspace(line.node))
        elif isinstance(line, lines.MultiOutputLine):
            # It was allocated with its tuple, under its own name.
            pass
        elif isinstance(line, CALLS):
            self._call(getattr(line, "kernel_name", type(line).__name__), 0)
        elif isinstance(line, str):
            self._code(line)
        elif not isinstance(line, NO_MEMORY):
            raise CompileError(
                f"rk does not know what the line {type(line).__name__} of Inductor's wrapper allocates"
            )

    def _extern(self, kernel: Any) -> None:
        name, workspace = kernel.get_name(), self.workspace(kernel)
        if of := V.graph.scheduler.name_to_buf[name].get_aliases():
            self._view(name, of[0])
        elif isinstance(kernel.get_output_spec(), ir.MultiOutputLayout):
            users = [user.node for user in V.graph.scheduler.name_to_buf[name].users]
            parts = lowering.tuple_parts(kernel, users)
            for part, size in parts:
                self._allocate(part, size)
                # The tuple holds what is in it.
                self.storages[part].names.add(f"{name}/{part}")
                self.storages[f"{name}/{part}"] = self.storages[part]
            picked = {one.get_name() for user in users for one in getattr(user, "get_outputs", list)()}
            self.tuples[name] = [f"{name}/{part}" for part, _ in parts]
            for part, _ in parts:
                if part not in picked:
                    self._free(part)
        elif not isinstance(kernel.get_output_spec(), lowering.HAS_NO_BYTES):
            self._allocate(name, lowering.bytes_of(kernel))
        self._call(_called(kernel), workspace)

    def _view(self, name: str, of: str) -> None:
        """What a kernel returns lies in the memory of a buffer."""
        self._share(name, of)
        for user in V.graph.scheduler.name_to_buf[name].users:
            for one in getattr(user.node, "get_outputs", list)():
                if isinstance(one.node, ir.MultiOutput) and name in one.get_aliases():
                    self._share(one.get_name(), of)

    def _code(self, line: str) -> None:
        code = line.strip()
        if code.startswith("del "):
            for name in code[4:].split(","):
                self._free(name.strip())
        elif (kernel := _drawn(code)) is not None:
            self._call(_called(kernel), self.workspace(kernel))
        elif code and not code.startswith(HARMLESS):
            raise CompileError(f"rk does not know what the line {code!r} of Inductor's wrapper allocates")


def _drawn(code: str) -> ir.ExternKernel | None:
    """The kernel that a line calls which draws random numbers into a buffer; Inductor writes it as text."""
    called = DRAWS.match(code)
    kernels = [one for one in V.graph.operations if isinstance(one, ir.InplaceBernoulliFallback)]
    return next((one for one in kernels if called is not None and one.input_name(0) == called[1]), None)


def _name_of(output: Any) -> str | None:
    """The buffer that a result lies in; None for constants."""
    constant = isinstance(output, (ir.NoneAsConstantBuffer, ir.ShapeAsConstantBuffer))
    return None if constant or not hasattr(output, "get_name") else output.get_name()


def _origin_of(output: Any) -> fx.Node | None:
    """The node of the graph that a result is the value of, if Inductor says so."""
    buffer = V.graph.scheduler.name_to_buf.get(_name_of(output))
    return None if buffer is None else lowering.origin(buffer.node)


def _called(kernel: Any) -> str:
    node = lowering.origin(kernel)
    path = joint.module_path(node) if node is not None else ""
    name = getattr(kernel, "python_kernel_name", None) or type(kernel).__name__
    return f"{name} ({path})" if path else str(name)


def _size(node: Any) -> int:
    """The bytes of an allocation: a buffer, or a kernel's scratch."""
    if isinstance(node, ir.IRNode):
        return lowering.bytes_of(node)
    return int(node.count) * node.dtype.itemsize
