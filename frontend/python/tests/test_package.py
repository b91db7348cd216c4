"""The package is built in layers: what is imported when a module loads points down, never up or round."""

import ast
from pathlib import Path

import rk

LAYERS = (
    ("_rk", "_rk_runtime"),
    ("errors",),
    ("_torch",),
    ("_graph",),
    ("_plan",),
    ("_codegen", "_chain", "_online"),
    ("_compile",),
    ("_report", "models"),
    ("__init__",),
)
"""Lowest first. Modules of one layer may not import each other's packages."""
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}
ROOT = Path(rk.__file__).parent


def imported(path):
    """The packages of rk that a module imports while it loads, with the line."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rk":
            parts = node.module.split(".")
            for name in parts[1:2] or [one.name for one in node.names]:
                yield name, node.lineno


def test_packages_import_what_is_below_them():
    upwards = []
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT).with_suffix("").parts[0]
        for name, line in imported(path):
            if name != inside and HEIGHT[name] >= HEIGHT[inside]:
                upwards.append(f"{path.relative_to(ROOT)}:{line} imports rk.{name}")
    assert not upwards


def test_every_package_says_what_it_is_for():
    packages = [path for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    assert {path.name for path in packages} <= set(HEIGHT)
    assert all(ast.get_docstring(ast.parse((path / "__init__.py").read_text())) for path in packages)
