"""Other versions of torch: what is taken from its inside is listed, and what is missing is said by name."""

import ast
import sys
import warnings
from pathlib import Path

import pytest
import torch
from codegens import WHY_NOT, needs_runtime
from torch import nn

import rk
from rk import _torch
from rk.errors import OptionError, TorchError

ROOT = Path(rk.__file__).parent
LISTED = {part for parts in _torch.PARTS.values() for part in parts}
NAMES = {name for part in LISTED for name in part.split(".")} | set(_torch.ON_OBJECTS)
WITHOUT_CUDA = {"torch._C._cuda_isHistoryEnabled"}


def is_private(names):
    return any(name == "experimental" or (name[0] == "_" and name[:2] != "__") for name in names)


def own_names(trees):
    """Names with an underscore that rk itself defines or assigns to."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
                yield node.attr
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (one.id for one in targets if isinstance(one, ast.Name))


def uses(tree):
    """Paths from torch on that a module imports or reads, and private attributes of anything else."""
    known = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "torch" and one.asname:
                    known[one.asname] = one.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "torch":
            for one in node.names:
                path = known[one.asname or one.name] = f"{node.module}.{one.name}"
                yield node.lineno, path
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        names, value = [], node
        while isinstance(value, ast.Attribute):
            names.insert(0, value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in known:
            yield node.lineno, ".".join([known[value.id], *names])
        else:
            yield from ((node.lineno, name) for name in names)


def is_listed(use):
    """A part, a module on the way to one, or a member of one."""
    return any(f"{part}.".startswith(f"{use}.") or f"{use}.".startswith(f"{part}.") for part in LISTED)


def test_every_private_part_is_listed():
    trees = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    own, found, unlisted = {*own_names(trees), *dir(sys)}, set(), []
    for path, tree in trees.items():
        for line, use in uses(tree):
            if not is_private(use.split(".")):
                continue
            found.add(use)
            fine = is_listed(use) if "." in use else use in NAMES or use in own
            if not fine:
                unlisted.append(f"{path.relative_to(ROOT)}:{line}: {use}")
    assert not unlisted
    named = {name for use in found for name in use.split(".")}
    built = {part for part in LISTED if "_reduced_precision_reduction" in part}
    # What is private by its own name is used by that; anything else may be used by the name of its module.
    names = {part: part.split(".")[1:] for part in LISTED - built}
    unused = [part for part, own in names.items() if named.isdisjoint(own[-1:] if own[-1][0] == "_" else own)]
    assert not unused


def test_every_part_is_there():
    absent = {part for part in LISTED if not _torch.is_there(part)}
    assert absent <= (set() if torch.backends.cuda.is_built() else WITHOUT_CUDA)


def test_the_version_at_hand_was_seen():
    assert ".".join(torch.__version__.split(".")[:2]) in _torch.SEEN


@pytest.fixture
def unchecked():
    """Forgets what was checked, before and after."""
    for function in (_torch.check, _torch._look_at_version):
        function.cache_clear()
    yield
    for function in (_torch.check, _torch._look_at_version):
        function.cache_clear()


def test_a_missing_part_is_named(monkeypatch, unchecked):
    monkeypatch.delattr(torch.fx._lazy_graph_module, "_make_graph_module")
    missing = r"torch\.fx\._lazy_graph_module\._make_graph_module for torch\.compile, which torch"
    with pytest.raises(TorchError, match=missing):
        _torch.check("planning a step", "torch.compile")
    assert issubclass(TorchError, rk.RkError) and issubclass(TorchError, ImportError)


def test_a_newer_torch_works_and_is_told_of_once(monkeypatch, unchecked):
    monkeypatch.setattr(torch, "__version__", "2.999.0+cu999")
    with pytest.warns(UserWarning, match="2.999.0.*is newer than"):
        _torch.check("planning a step")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _torch.check("torch.compile")
    compiled = rk.compile(nn.Sequential(nn.Linear(8, 8), nn.GELU()), budget="100%")
    compiled(torch.randn(4, 8)).sum().backward()
    with pytest.raises(OptionError, match="codegen='rk' runs with torch 2.11.0.*this is torch 2.999.0"):
        rk.compile(nn.Linear(2, 2), codegen="rk")


def test_an_older_torch_is_refused(monkeypatch, unchecked):
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(TorchError, match="rk needs torch 2.11 or newer, and this is torch 2.9.1"):
        _torch.check("planning a step")


@needs_runtime
def test_the_runtime_is_that_of_the_list():
    from rk import _rk_runtime

    assert _rk_runtime.torch_version() == _torch.RUNTIME


@pytest.mark.skipif(WHY_NOT is None, reason="the extension is linked to this torch")
def test_without_the_runtime_everything_else_works():
    with pytest.raises(OptionError, match=f"codegen='rk' runs with torch {_torch.RUNTIME}"):
        rk.compile(nn.Linear(2, 2), codegen="rk")
    assert "rk._rk_runtime" not in sys.modules
