"""A sequence of modules that trains within a limit (rotor's problem)."""

from rk import _torch

_torch.check("planning a step")
