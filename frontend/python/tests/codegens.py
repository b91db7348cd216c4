"""Tests with ``codegen="rk"`` are skipped with another torch than its extension is linked to."""

import pytest

from rk import _torch

WHY_NOT = _torch.refuse_runtime()
needs_runtime = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
CODEGENS = ["fx", pytest.param("rk", marks=needs_runtime)]
