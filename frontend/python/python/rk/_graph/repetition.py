"""Which operators may run a second time, and whether they draw random numbers (laws S4 and S5).

=====================================================  ======================================================
operators                                              a second run
=====================================================  ======================================================
``aten``, ``prims``, ``rngprims``, ``torchvision``     gives the same bits; those tagged
                                                       ``nondeterministic_seeded`` with the state of the
                                                       generator that they drew from
a sum in no particular order on a GPU                  does not happen, unless PyTorch is told to use
(:data:`UNORDERED`)                                    deterministic algorithms
others tagged ``nondeterministic_seeded``              gives the same bits with the state of the generator:
                                                       that is what the tag says
those of :func:`allow_recompute`                       is the user's word; whether they draw is watched
of higher order, calling graphs (:data:`CALLERS`)      is as all that is in their graphs
all others, and what is registered with an effect      does not happen
=====================================================  ======================================================

No other tag says that an operator may run again: ``pt2_compliant_tag`` is about tracing, ``pointwise`` and
``needs_exact_strides`` are about shapes. What draws from a generator object that it is given runs once in a
compiled step.

Not here: the second run itself (``emit``, ``replay``).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._library.custom_ops import CustomOpDef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx.node import map_arg

from rk._graph import joint, made_up
from rk.errors import OptionError

__all__ = ["Manner", "allow_recompute", "generators", "is_unknown", "manner", "manner_of"]

KNOWN = frozenset({"aten", "prims", "rngprims", "torchvision"})
"""Namespaces whose operators depend on their arguments and on generators, say what they write, and do nothing
else.
"""
UNORDERED = frozenset(
    f"aten::{name}{end}"
    for name in (
        *("index_add", "index_reduce", "scatter_add", "scatter_reduce", "index_put", "_unsafe_index_put"),
        *("_index_put_impl", "put", "cumsum", "bincount", "histc", "nll_loss2d_forward"),
    )
    for end in ("", "_")
)
"""Operators whose kernels for GPUs add with atomics, so that the last bits depend on the order of threads."""
CALLERS = frozenset(
    (
        *("associative_scan", "auto_functionalized", "auto_functionalized_v2", "cond", "flex_attention"),
        *("flex_attention_backward", "hints_wrapper", "invoke_subgraph", "map_impl", "out_dtype", "scan"),
        *("while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled"),
    )
)
"""Operators of higher order that do nothing but call the graphs and operators among their arguments."""
NUMBERS = ("_operator", "math", "builtins", "torch")
"""Modules of the functions that a graph computes sizes with."""

_allowed: set[str] = set()


class Manner(enum.IntEnum):
    """What a second run of an operator does."""

    PURE = 0
    """Gives the same bits."""
    RANDOM = 1
    """Gives the same bits from the same state of the device's default generator."""
    WATCHED = 2
    """Gives the same bits from the same states of all generators; which, is seen when it runs."""
    ONCE = 3
    """Must not happen."""


def allow_recompute(op: Any) -> Any:
    """Says that an operator outside of aten may run again: it computes its results from its arguments, and
    does nothing else.

    It may draw random numbers from PyTorch's default generators. Steps that are compiled afterwards, and
    calls under a memory budget from now on, may repeat it.

    Args:
        op: What ``torch.library.custom_op`` returns, ``torch.ops.mine.op`` (all overloads), one of its
            overloads, or ``"mine::op"``.

    Returns:
        The same ``op``, so that this can stand above ``@torch.library.custom_op``.

    Raises:
        OptionError: It is no operator, or one that is called for an effect.
    """
    overloads = list(_overloads(op))
    for one in overloads:
        if _is_effect(one):
            raise OptionError(
                f"{one} is called for an effect (it returns nothing, or is registered with one), and an "
                "effect happens once"
            )
    _allowed.update(map(str, overloads))
    _of_overload.cache_clear()
    is_pure.cache_clear()
    return op


def _overloads(op: Any) -> Iterator[OpOverload | HigherOrderOperator]:
    if isinstance(op, CustomOpDef):
        yield op._opoverload
    elif isinstance(op, (OpOverload, HigherOrderOperator)):
        yield op
    elif isinstance(op, OpOverloadPacket):
        yield from (getattr(op, name) for name in op.overloads())
    elif isinstance(op, str):
        yield from _overloads(_named(op))
    else:
        raise OptionError(
            f"allow_recompute takes an operator (what torch.library.custom_op returns, torch.ops.mine.op, or "
            f"'mine::op'), not {type(op).__name__} {op!r}"
        )


def _named(name: str) -> Any:
    space, colons, rest = name.partition("::")
    packet, dot, overload = rest.partition(".")
    try:
        found = getattr(getattr(torch.ops, space), packet)
        if colons and packet:
            return getattr(found, overload) if dot else found
    except (AttributeError, RuntimeError):
        pass
    raise OptionError(
        f"there is no operator {name!r}; 'mine::op' is defined before it is allowed to run again"
    )


def manner(target: Any, device: str = "cpu") -> Manner:
    """What a second run of an operator does, by itself, on tensors of this type of device."""
    if isinstance(target, OpOverload):
        found = _of_overload(target)
        unordered = device != "cpu" and target._schema.name in UNORDERED
        return Manner.ONCE if unordered and not torch.are_deterministic_algorithms_enabled() else found
    if isinstance(target, HigherOrderOperator):
        return Manner.WATCHED if str(target) in _allowed else Manner.ONCE
    return Manner.PURE if getattr(target, "__module__", None) in NUMBERS else Manner.ONCE


@functools.cache
def is_pure(target: OpOverload) -> bool:
    """Whether each call gives the same bits again, whatever its arguments and its device are."""
    is_ordered = target._schema.name not in UNORDERED
    return is_ordered and not _takes_generators(target) and _of_overload(target) is Manner.PURE


@functools.cache
def _of_overload(target: OpOverload) -> Manner:
    seeded = torch.Tag.nondeterministic_seeded in target.tags
    if _is_effect(target) or torch.Tag.nondeterministic_bitwise in target.tags:
        return Manner.ONCE
    if target.namespace in KNOWN:
        return Manner.RANDOM if seeded else Manner.PURE
    return Manner.WATCHED if seeded or str(target) in _allowed else Manner.ONCE


def _is_effect(target: Any) -> bool:
    """Whether an operator is called for something besides its results and what it says it writes."""
    from torch._higher_order_ops.effects import has_effects

    if isinstance(target, OpOverload):
        schema = target._schema
        idle = not schema.returns and not any(
            a.alias_info and a.alias_info.is_write for a in schema.arguments
        )
        return idle or has_effects(target)
    return False


def manner_of(call: fx.Node) -> Manner:
    """What a second run of a call in a graph does: :attr:`Manner.WATCHED` is resolved by running the operator
    on made-up values, as costs are measured. What refuses those, or draws from the generator of another
    device than its results', runs once.
    """
    if joint.is_getitem(call) or (isinstance(call.target, OpOverload) and is_pure(call.target)):
        return Manner.PURE
    found = _found(call.target, call, call.graph.owning_module)
    return _watched(call) if found is Manner.WATCHED else found


def is_unknown(call: fx.Node) -> bool:
    """Whether a call must not run at all but in its place in a step: not to be measured, nor compared."""
    outside = getattr(call.target, "namespace", None) not in KNOWN or bool(_generators_of(call))
    return outside and manner_of(call) is Manner.ONCE


def _generators_of(call: fx.Node) -> list[torch.Generator]:
    if isinstance(call.target, OpOverload) and not _takes_generators(call.target):
        return []
    arguments = torch.utils._pytree.tree_leaves((call.args, call.kwargs))
    return [one for one in arguments if isinstance(one, torch.Generator)]


@functools.cache
def _takes_generators(target: OpOverload) -> bool:
    return any("Generator" in str(argument.type) for argument in target._schema.arguments)


def _found(target: Any, call: fx.Node, module: Any) -> Manner:
    if _generators_of(call):
        return Manner.ONCE
    if isinstance(target, OpOverload) and target._schema.name not in UNORDERED:
        return _of_overload(target)
    if not isinstance(target, HigherOrderOperator) or target.name() not in CALLERS:
        return manner(target, _device(call))
    if str(target) in _allowed:
        return Manner.WATCHED
    arguments = torch.utils._pytree.tree_leaves((call.args, call.kwargs))
    return max((_called(one, call, module) for one in arguments), default=Manner.PURE)


def _called(argument: Any, call: fx.Node, module: Any) -> Manner:
    """What is called through an argument of an operator of higher order."""
    if isinstance(argument, fx.Node):
        if argument.op != "get_attr":
            return Manner.PURE
        argument = getattr(module, argument.target, None)
    if isinstance(argument, (OpOverload, HigherOrderOperator)):
        return manner(argument, _device(call))
    if not isinstance(argument, fx.GraphModule):
        return Manner.PURE
    inner = (one for one in argument.graph.nodes if one.op == "call_function" and not joint.is_getitem(one))
    return max((_found(one.target, one, argument) for one in inner), default=Manner.PURE)


def _device(call: fx.Node) -> str:
    tensors = (one for one in joint.results_of(call) if one is not None)
    return next((one.device.type for one in tensors), "cpu")


_seen: dict[str, Manner] = {}


def _watched(call: fx.Node) -> Manner:
    arguments = map_arg((call.args, call.kwargs), lambda node: node.meta.get("val"))
    key = f"{call.target} {arguments}"
    if key not in _seen:
        device = _device(call)
        try:
            with made_up.alone(torch.device(device)):
                before = [(one, one.get_state()) for one in generators()]
                made_up.result(call)
                moved = {one.device.type for one, state in before if not torch.equal(state, one.get_state())}
        except Exception:  # noqa: BLE001 - any operator may refuse made-up values
            _seen[key] = Manner.ONCE
            return Manner.ONCE
        seeded = torch.Tag.nondeterministic_seeded in getattr(call.target, "tags", ())
        drawn = Manner.RANDOM if moved or seeded else Manner.PURE
        _seen[key] = drawn if moved <= {device} else Manner.ONCE
    return _seen[key]


def generators() -> list[torch.Generator]:
    """The default generators of the CPU and of all GPUs that are in use."""
    on_gpus = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    return [torch.default_generator, *on_gpus]
