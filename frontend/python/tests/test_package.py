"""The package is built in layers: what is imported when a module loads points down, never up or round."""

import ast
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rk
import rk._rk

LAYERS = (
    ("_rk", "_rk_runtime", "_rk_memory"),
    ("errors",),
    ("_torch",),
    ("_graph",),
    ("_plan",),
    ("_codegen", "_inductor", "_chain", "_online"),
    ("_run",),
    ("_compile",),
    ("_report", "config", "measure", "models", "_bin"),
    ("rkgb", "rockmate"),
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


def parsed(name):
    return ast.parse((ROOT / name).read_text())


def test_type_checkers_see_every_public_name():
    branches = [node for node in parsed("__init__.py").body if isinstance(node, ast.If)]
    (block,) = [node for node in branches if ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {name.asname: f"{node.module}.{name.name}" for node in block.body for name in node.names}
    late = {name: f"rk.{module}.{name}" for name, module in rk._LATE.items()}
    assert seen == {**late, **{name: f"rk.{name}" for name in rk._MODULES}}
    assert all(getattr(rk, name) is not None for name in rk.__all__)


def test_importing_the_package_loads_nothing_that_is_slow():
    ask = "import sys; before = set(sys.modules); import rk; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert [name for name in loaded.split() if name.partition(".")[0] in ("rk", "torch", "numpy")] == ["rk"]


def test_the_stub_of_the_extension_has_its_names():
    stub = [node for node in parsed("_rk.pyi").body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert {node.name for node in stub} == {name for name in dir(rk._rk) if not name.startswith("__")}
    for node in stub:
        real = getattr(rk._rk, node.name)
        if isinstance(node, ast.FunctionDef):
            names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
            assert names == list(inspect.signature(real).parameters), node.name
        elif not issubclass(real, Exception):
            members = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__init__"}
            assert members == {name for name in vars(real) if not name.startswith("__")}


def test_the_version_is_that_of_the_metadata():
    assert rk.__version__ == importlib.metadata.version("rk")


@pytest.mark.parametrize("tool", ["opt", "plan", "simrd"])
def test_a_tool_that_is_not_there_says_where_it_comes_from(tool):
    program = ROOT / "_bin" / f"rk-{tool}"
    command = [sys.executable, "-c", f"from rk._bin import {tool}; {tool}()", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    if program.exists():
        assert done.returncode == 0 and rk.__version__ in done.stdout
    else:
        assert done.returncode == 1 and f"rk-{tool} comes with rk's wheel" in done.stderr
