"""A budget for models whose graph changes at every step."""

from rk import _torch

_torch.check("planning a step", "rk.memory_budget")
