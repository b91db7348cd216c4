"""Tests that take too long for each run, and are left out unless they are asked for."""

from __future__ import annotations

import os

import pytest

LARGER = pytest.mark.skipif("RK_NIGHTLY" not in os.environ, reason="of the larger set: RK_NIGHTLY=1")
