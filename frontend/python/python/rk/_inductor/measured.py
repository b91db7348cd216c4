"""What a step really takes, measured around its two passes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rk._plan import measure

Run = Callable[[list[Any]], Any]


class MeasuredStep(abc.ABC):
    """Wraps forward and backward, and measures steps as long as somebody wants to know."""

    settled = False
    """Nothing is measured any more."""

    def begins_with(self, device: torch.device, gradients: Sequence[int]) -> None:
        """New kernels are about to run; ``gradients`` says which results of backward are gradients of
        parameters, which do not count.
        """
        self._device, self._gradients = device, gradients
        self._peak = self._left = 0
        # On a GPU kernels are chosen in their first run, by trying them, and libraries take their workspaces.
        self._is_warm = device.type == "cpu"

    @abc.abstractmethod
    def took(self, peak: int) -> None:
        """A step took so many bytes at most, in the scope ``activations``."""

    def forward(self, run: Run) -> Run:
        """Measures the forward pass."""

        def measured(args: list[Any]) -> Any:
            self._peak = 0
            if self.settled or not self._is_warm or self._is_watched():
                return run(args)
            with measure.memory(self._device) as memory:
                results = run(args)
            self._peak, self._left = memory.peak, memory.left
            return results

        measured._boxed_call = True
        return measured

    def backward(self, run: Run) -> Run:
        """Measures the backward pass, and with it the step."""

        def measured(args: list[Any]) -> Any:
            if self.settled or self._peak == 0 or self._is_watched():
                self._is_warm = True
                return run(args)
            with measure.addresses(self._device) as addresses:
                results = run(args)
            gradients = (results[place] for place in self._gradients if place < len(results))
            most = addresses.peak(one for one in gradients if isinstance(one, torch.Tensor))
            self.took(max(self._peak, self._left + most))
            return results

        measured._boxed_call = True
        return measured

    def _is_watched(self) -> bool:
        """Whether the user is profiling, or recording what the GPU's allocator does: there is one history."""
        recorded = self._device.type != "cpu" and torch._C._cuda_isHistoryEnabled()
        return recorded or torch.autograd._profiler_enabled()
