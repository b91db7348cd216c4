"""A training step as PyTorch traces it: read, put in order, and spelled in the dialect rk."""

from rk import _torch

_torch.check("planning a step")
