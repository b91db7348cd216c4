"""Imported by a module whose tests all need ``codegen="rk"``: skips it where that does not work."""

import pytest
from codegens import WHY_NOT

if WHY_NOT is not None:
    pytest.skip(WHY_NOT, allow_module_level=True)
