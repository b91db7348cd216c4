"""Types, values and operators as the dialect rk spells them (docs/ir.md)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import torch
from torch import fx

from rk.errors import CompileError

ELEMENTS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex32: "complex<f16>",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ",
    torch.float8_e4m3fnuz: "f8E4M3FNUZ",
    torch.float8_e8m0fnu: "f8E8M0FNU",
}
STANDS_FOR = {1: "ui8", 2: "i16", 4: "i32", 8: "i64", 16: "complex<f64>"}
"""What the dialect does not have (packed 4-bit floats, quantized numbers) stands as something of the same
size, which is all that a plan needs to know of it.
"""
SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.float8_e5m2fnuz: 25,
    torch.float8_e4m3fnuz: 26,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
    torch.float8_e8m0fnu: 44,
}
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
RUNNING_STATISTICS = (torch.ops.aten.native_batch_norm.default, frozenset({"running_mean", "running_var"}), 5)
"""An operator that overwrites arguments without saying so in its schema, in training (the argument at this
index).
"""
COLLECTIVES = ("_c10d_functional", "c10d_functional")


@functools.lru_cache(maxsize=65536)
def _type(dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], storage: int | None) -> str:
    element = ELEMENTS.get(dtype) or STANDS_FOR[dtype.itemsize]
    extents = "".join(f"{size}x" for size in shape)
    row_major, step = [], 1
    for size in reversed(shape):
        row_major.append(step)
        step *= max(size, 1)
    plain = strides == tuple(reversed(row_major))
    span = 0 if 0 in shape else 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    longer = storage is not None and storage > span * dtype.itemsize
    if plain and not longer:
        return f"tensor<{extents}{element}>"
    more = f", storage {storage}" if longer else ""
    return f"tensor<{extents}{element}, #rk.strided<[{', '.join(map(str, strides))}]{more}>>"


def type_of(tensor: torch.Tensor | None, *, owner: bool = False) -> str:
    """The type of a tensor; with ``owner``, the length of its storage too."""
    if tensor is None:
        return "none"
    shape, strides = tuple(tensor.shape), tensor.stride()
    if any(type(size) is not int for size in shape):
        raise CompileError(f"a tensor has the symbolic shape {shape}; rk plans steps of known shapes")
    return _type(tensor.dtype, shape, strides, tensor.untyped_storage().nbytes() if owner else None)


def types(spelled: list[str]) -> str:
    """The result types of a call."""
    return spelled[0] if len(spelled) == 1 else f"({', '.join(spelled)})"


@functools.lru_cache(maxsize=65536)
def quoted(text: str) -> str:
    """A string as MLIR spells it."""
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(c: str) -> str:
    plain = 32 <= ord(c) < 127 and c not in '"\\'
    return c if plain else "".join(f"\\{byte:02X}" for byte in c.encode())


def constant(value: Any) -> str:
    """An argument that is no tensor."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, torch.dtype):
        return str(SCALAR_TYPES.get(value, -1))
    if isinstance(value, torch.memory_format):
        return str(MEMORY_FORMATS[value])
    if value is torch.strided:
        return "0"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise CompileError(f"an operator takes the symbolic size {value}; rk plans steps of known shapes")
    return quoted(str(value))


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "minus_inf"
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text


@dataclasses.dataclass(frozen=True)
class Operator:
    """What is the same for all calls of an operator."""

    name: str
    """``namespace.name.overload``."""
    arguments: tuple[tuple[str, Any], ...]
    """Names and defaults, in schema order; empty without a schema."""
    written: frozenset[str]
    """The arguments that it overwrites."""
    is_effect: bool
    """It is called for something besides its results: an assertion, a collective."""


def written(call: fx.Node) -> frozenset[str]:
    """The names of the arguments that a call overwrites."""
    target, names, training = RUNNING_STATISTICS
    return names if call.target is target and call.args[training] else operator(call.target).written


@functools.lru_cache(maxsize=4096)
def operator(target: Any) -> Operator:
    """What is known of the target of a call."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        name = f"{getattr(target, 'namespace', 'python')}.{getattr(target, '__name__', target)}.default"
        return Operator(name, (), frozenset(), is_effect=False)
    space, name = schema.name.split("::")
    arguments = tuple((a.name, a.default_value if a.has_default_value() else None) for a in schema.arguments)
    written = frozenset(a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
    is_effect = space in COLLECTIVES or not schema.returns and not written
    return Operator(f"{space}.{name}.{schema.overload_name or 'default'}", arguments, written, is_effect)


def in_schema_order(about: Operator, node: fx.Node) -> list[tuple[str, Any]]:
    """The arguments of a call with their names, defaults filled in."""
    if not about.arguments:
        return [("", value) for value in (*node.args, *node.kwargs.values())]
    given = len(node.args)
    positional = [(name, value) for (name, _), value in zip(about.arguments, node.args, strict=False)]
    return positional + [(name, node.kwargs.get(name, default)) for name, default in about.arguments[given:]]
