"""From a step and a budget to a plan: options, costs, the planner, plans on disk."""

from rk import _torch

_torch.check("planning a step")
