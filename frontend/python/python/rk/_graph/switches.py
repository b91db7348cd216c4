"""PyTorch's global switches that decide which kernel an operator is, and with which last bits.

Whoever changes one between forward and backward (``torch.backends.mkldnn.flags`` around the model alone, say)
gets a backward pass with the new setting. What runs again there is a value of the forward pass, so it runs
with the setting that forward had (law S8). cuDNN's switches are kept for both passes (``settings``).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from rk._graph import random_state

Setting = dict[str, Any]
"""The values of switches by their names: of those that matter."""
Switch = tuple[Callable[[], Any], Callable[[Any], Any]]
"""What reads it, and what sets it."""


_PRECISION = "fp32_precision"


def _precisions(library: str) -> dict[str, Switch]:
    get, put = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter
    return {
        f"torch.backends.{library}.{operator}.{_PRECISION}": (
            functools.partial(get, library, operator),
            functools.partial(put, library, operator),
        )
        for operator in ("matmul", "conv", "rnn")
    }


def _reduction(name: str) -> Switch:
    get = getattr(torch._C, f"_get_cublas_allow_{name}_reduced_precision_reduction")
    put = getattr(torch._C, f"_set_cublas_allow_{name}_reduced_precision_reduction")
    return get, lambda value: put(*value)


def _put_deterministic(value: bool) -> None:
    only_warns = torch._C._get_deterministic_algorithms_warn_only()
    torch._C._set_deterministic_algorithms(value, warn_only=only_warns)


_EVERYWHERE: dict[str, Switch] = {
    "torch.use_deterministic_algorithms": (torch._C._get_deterministic_algorithms, _put_deterministic),
    "torch.set_default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
}
_CPU: dict[str, Switch] = {
    # Not for a GPU, whose backward pass has a thread of its own, with a number of its own.
    "torch.set_num_threads": (torch.get_num_threads, torch.set_num_threads),
    "torch.backends.nnpack.enabled": (torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled),
    "torch.backends.mkldnn.enabled": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    "torch.backends.mkldnn.deterministic": (
        torch._C._get_mkldnn_deterministic,
        torch._C._set_mkldnn_deterministic,
    ),
}
_CUDA: dict[str, Switch] = {
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": _reduction("fp16"),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": _reduction("bf16"),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": (
        torch._C._get_cublas_allow_fp16_accumulation,
        torch._C._set_cublas_allow_fp16_accumulation,
    ),
}
_OF_CPU = {**_EVERYWHERE, **_CPU, **_precisions("mkldnn")}
_OF_GPU = {**_EVERYWHERE, **_CUDA, **_precisions("cuda")}
_OF_POINTWISE = {**_EVERYWHERE, **_CPU}
SWITCHES = {**_OF_CPU, **_OF_GPU}
_OF_FORWARD = threading.local()


_ONLY = {"conv": ("conv",), "rnn": ("rnn", "lstm", "gru")}
"""Precisions that matter only to operators with one of these in their names. Each takes a microsecond."""
_KNOWN = ("aten", "prims", "_operator")
"""Where operators come from whose names say what they do."""


def now(device: torch.device) -> Setting:
    """The present setting, of what matters on a device."""
    return present(_OF_CPU if device.type == "cpu" else _OF_GPU)


def present(names: Iterable[str]) -> Setting:
    """The present setting of these switches."""
    return {name: SWITCHES[name][0]() for name in names}


class Relevant:
    """The switches that matter to the calls of a graph on a device; each call of it reads them twice."""

    def __init__(self, called: Sequence[Any], device: torch.device) -> None:
        """``called`` are the operators; one that nothing is known of depends on all."""
        texts = [str(one).lower() for one in called]
        known = all(getattr(one, "namespace", getattr(one, "__module__", "")) in _KNOWN for one in called)
        out = {
            precision
            for precision, parts in _ONLY.items()
            if known and not any(part in text for text in texts for part in parts)
        }
        every = _OF_CPU if device.type == "cpu" else _OF_GPU
        self.names = [one for one in every if not (one.endswith(_PRECISION) and one.split(".")[-2] in out)]
        self._readers = [every[name][0] for name in self.names]

    def values(self) -> list[Any]:
        """The present setting, in the order of the names."""
        return [read() for read in self._readers]

    def setting(self, values: list[Any]) -> Setting:
        """The same by names."""
        return dict(zip(self.names, values, strict=True))


def now_for_pointwise() -> Setting:
    """The present setting, of what matters to operators that compute each element by itself. Precisions of
    products do not, and take ten times as long to read as all else.
    """
    return present(_OF_POINTWISE)


def differences(setting: Setting, other: Setting) -> str:
    """Which switches differ, with both values."""
    return ", ".join(
        f"{name} ({value}, then {other[name]})" for name, value in setting.items() if value != other[name]
    )


@contextlib.contextmanager
def kept(setting: Setting) -> Iterator[None]:
    """The switches are so while this lasts."""
    before = present(setting)
    changed = [name for name, value in setting.items() if value != before[name]]
    for name in changed:
        SWITCHES[name][1](setting[name])
    try:
        yield
    finally:
        for name in changed:
            SWITCHES[name][1](before[name])


@contextlib.contextmanager
def of_forward(setting: Setting) -> Iterator[None]:
    """While this lasts, :func:`replay` runs with this setting."""
    outer = getattr(_OF_FORWARD, "setting", None)
    _OF_FORWARD.setting = setting
    try:
        yield
    finally:
        _OF_FORWARD.setting = outer


def replay(operator: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Runs an operator again, with the setting of the forward pass that it belongs to."""
    with kept(_OF_FORWARD.setting):
        return operator(*args, **kwargs)


def replay_random(
    state: torch.Tensor, device: torch.device, operator: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """:func:`rk._graph.random_state.replay` with the setting of the forward pass."""
    with kept(_OF_FORWARD.setting):
        return random_state.replay(state, device, operator, *args, **kwargs)
