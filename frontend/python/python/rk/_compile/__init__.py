"""The backend of ``torch.compile``, and the class that uses it."""

from rk import _torch

_torch.check("torch.compile")
