"""From a plan to what runs: graphs of PyTorch, Inductor's kernels, or rk's own runtime."""

from rk import _torch

_torch.check("torch.compile")
