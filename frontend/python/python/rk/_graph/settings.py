"""PyTorch's switches that decide which kernel an operator is: written down with a plan, and kept while its
graphs run.

A cost holds for the kernels that were measured. cuDNN's switches are the ones that Dynamo does not guard, and
with ``torch.backends.cudnn.benchmark`` the choice of an algorithm, and so of its workspace, is the outcome of
a race. So what rk measures and what it runs has cuDNN's switches as they were when the step was planned, and
``benchmark`` off. The names are those of ``codegen/torch/cc/settings.cpp``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_CUDNN = {
    "cudnn": (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    "cudnn_benchmark": (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "cudnn_deterministic": (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
}
_FLOAT32 = ("conv", "rnn", "matmul")
_VARIABLES = ("CUBLAS_WORKSPACE_CONFIG", "CUDNN_CONV_WSCAP_DBG", "NVIDIA_TF32_OVERRIDE")


def _switch(value: bool) -> str:
    return "on" if value else "off"


def text(device: torch.device) -> str:
    """The switches for a device and what else its kernels depend on, as ``name=value`` with blanks between;
    ``cudnn_benchmark`` as rk has it.
    """
    deterministic = _switch(torch.are_deterministic_algorithms_enabled())
    if torch.is_deterministic_algorithms_warn_only_enabled():
        deterministic = "warn"
    words = {"deterministic": deterministic}
    if device.type == "cpu":
        words["mkldnn"] = _switch(torch._C._get_mkldnn_enabled())
        words["mkldnn_deterministic"] = _switch(torch._C._get_mkldnn_deterministic())
        words.update((one, torch._C._get_fp32_precision_getter("mkldnn", one)) for one in _FLOAT32)
    else:
        words.update(_cuda(device))
    return " ".join(f"{name}={value}" for name, value in words.items())


def _cuda(device: torch.device) -> dict[str, Any]:
    words: dict[str, Any] = {name: _switch(get()) for name, (get, _) in _CUDNN.items()}
    words["cudnn_benchmark"] = "off"
    words.update((one, torch._C._get_fp32_precision_getter("cuda", one)) for one in _FLOAT32)
    for name in ("fp16", "bf16"):
        allowed, splits = getattr(torch._C, f"_get_cublas_allow_{name}_reduced_precision_reduction")()
        words[f"{name.replace('fp', 'f')}_reduction"] = 0 if allowed else 1 if splits else 2
    words["f16_accumulation"] = _switch(torch._C._get_cublas_allow_fp16_accumulation())
    words["blas"] = int(torch._C._get_blas_preferred_backend())
    words["flash"] = _switch(torch._C._get_flash_sdp_enabled())
    words["efficient"] = _switch(torch._C._get_mem_efficient_sdp_enabled())
    words["math"] = _switch(torch._C._get_math_sdp_enabled())
    words["cudnn_attention"] = _switch(torch._C._get_cudnn_sdp_enabled())
    for name in _VARIABLES:
        words[name] = os.environ.get(name, "").replace(" ", "_") or "unset"
    there = torch.cuda.is_available()
    words["cudnn_version"] = (torch.backends.cudnn.version() if there else None) or "none"
    words["gpu"] = torch.cuda.get_device_name(device).replace(" ", "_") if there else "unknown"
    return words


class Kernels:
    """cuDNN's switches at one moment, ``benchmark`` off."""

    def __init__(self, device: torch.device) -> None:
        """Those of now. Nothing is kept for a step on the CPU."""
        self._wanted = {name: get() for name, (get, _) in _CUDNN.items()} if device.type != "cpu" else {}
        if self._wanted:
            self._wanted["cudnn_benchmark"] = False

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """The switches are as they were then, while this context lasts."""
        before = {name: _CUDNN[name][0]() for name in self._wanted}
        for name, value in self._wanted.items():
            if before[name] != value:
                _CUDNN[name][1](value)
        try:
            yield
        finally:
            for name, value in before.items():
                _CUDNN[name][1](value)

    def around(self, run: Callable[[list[Any]], Sequence[Any]]) -> Callable[[list[Any]], Sequence[Any]]:
        """A pass that runs with them."""
        if not self._wanted:
            return run

        def kept(args: list[Any]) -> Sequence[Any]:
            with self.kept():
                return run(args)

        kept._boxed_call = True
        return kept
