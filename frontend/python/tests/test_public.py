"""The public names of the package: each says what it takes and gives, and has types; modules stay small."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import rk

ROOT = Path(rk.__file__).parent
MODULES = ("rk", "rk.config", "rk.errors", "rk.measure", "rk.models", "rk.rkgb", "rk.rockmate")
LONGEST = 400
MARKED = ("Args", "Raises")
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public():
    """Functions and classes that users are handed, and what rk's functions return, each once."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [
            name
            for name, one in vars(module).items()
            if name[0] != "_" and getattr(one, "__module__", "") == module.__name__
        ]
        for name in names:
            one = getattr(module, name)
            if callable(one) and f"{getattr(one, '__module__', '')}.".startswith("rk."):
                found[id(one)] = (f"{module.__name__}.{name}", one)
    for name, one in list(found.values()):
        if inspect.isfunction(one):
            home = vars(inspect.getmodule(one))
            for word in re.findall(r"\w+", str(one.__annotations__.get("return", ""))):
                made = home.get(word)
                if inspect.isclass(made) and made.__module__.startswith("rk."):
                    inside = [one for base in getattr(made, "__orig_bases__", ()) for one in get_args(base)]
                    for each in [made, *(one for one in inside if one.__module__.startswith("rk."))]:
                        found[id(each)] = (f"what {name} returns ({each.__name__})", each)
    return dict(sorted(found.values()))


PUBLIC = public()


def members(kind):
    """The methods and properties that a class of rk defines itself, with those that make it."""
    for name, one in vars(kind).items():
        if name == "__init__" or not name.startswith("_"):
            made = one.__func__ if isinstance(one, classmethod | staticmethod) else one
            made = getattr(made, "fget", None) or getattr(made, "func", None) or made
            if (
                inspect.isfunction(made)
                and made.__module__ == kind.__module__
                and made.__name__ != "<lambda>"
            ):
                yield name, made


def functions():
    for name, one in PUBLIC.items():
        if inspect.isclass(one):
            generated = "__dataclass_fields__" in vars(one)
            yield from (
                (f"{name}.{member}", made)
                for member, made in members(one)
                if not (generated and member == "__init__")
            )
        elif inspect.isfunction(one):
            yield name, one


FUNCTIONS = dict(functions())


def complaints(name, function):
    """What a docstring in Google's style lacks."""
    signature = inspect.signature(function)
    doc = inspect.getdoc(function) or ""
    sections = dict(re.findall(r"^(Args|Returns|Yields|Raises):\n((?:    .*\n?|\n)+)", doc, re.MULTILINE))
    if not doc:
        yield "no docstring"
    described = re.findall(r"^    \*{0,2}(\w+): \S", sections.get("Args", ""), re.MULTILINE)
    asked = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    # What is handed on to PyTorch, or ignored, has no names.
    wanted = [one.name for one in asked if one.kind not in VARIABLE or one.name == "options"]
    if missing := set(wanted) - set(described):
        yield f"Args lacks {', '.join(sorted(missing))}"
    if unknown := set(described) - {one.name for one in asked}:
        yield f"Args has {', '.join(sorted(unknown))}, which it does not take"
    untyped = [one.name for one in asked if one.annotation is inspect.Parameter.empty]
    if signature.return_annotation is inspect.Signature.empty and "lambda" not in function.__name__:
        untyped.append("its result")
    if untyped:
        yield f"no type of {', '.join(untyped)}"
    gives = str(signature.return_annotation) not in ("None", "<class 'NoneType'>")
    if (
        wanted
        and gives
        and name.rsplit(".", 1)[-1] != "__init__"
        and not {"Returns", "Yields"} & set(sections)
    ):
        yield "no Returns"
    if re.search(r"\braises?\b [A-Z]\w+Error", doc.partition("\nReturns:")[0], re.IGNORECASE):
        yield "an error outside of Raises"


def test_there_are_names_to_look_at():
    assert len(PUBLIC) > 45 and len(FUNCTIONS) > 60
    assert {"rk.compile", "rk.rkgb.make_all_graphs", "what rk.plan returns (Plan)"} <= set(PUBLIC)


def test_a_docstring_that_lacks_something_is_complained_of():
    def function(one: int, two, **options: int) -> int:
        """Does something. Raises ValueError.

        Args:
            one: The first.
            other: What is not there.
        """

    assert list(complaints("function", function)) == [
        "Args lacks options, two",
        "Args has other, which it does not take",
        "no type of two",
        "no Returns",
        "an error outside of Raises",
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_and_give(name):
    assert not list(complaints(name, FUNCTIONS[name]))


@pytest.mark.parametrize("name", [name for name, one in PUBLIC.items() if inspect.isclass(one)])
def test_classes_and_their_fields_say_what_they_are(name):
    kind = PUBLIC[name]
    assert inspect.getdoc(kind) and inspect.getdoc(kind) != inspect.getdoc(object)
    # What is made in Rust has its fields in the stub.
    source = ROOT.parent / (kind.__module__.replace(".", "/") + ".py")
    places = [source if source.exists() else Path(inspect.getsourcefile(kind)), ROOT / "_rk.pyi"]
    trees = [ast.parse(path.read_text()) for path in places]
    classes = [one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    body = next(one for one in classes if one.name == kind.__name__)
    assert not list(silent(body.body))


LITERALS = (ast.Constant, ast.Dict, ast.List, ast.Set, ast.Tuple)


def silent(body):
    """The public variables of a class or a module that have no type, or no docstring behind them. What
    another name is given to, or made by a call, says itself what it is.
    """
    for node, behind in zip(body, [*body[1:], None], strict=True):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", ())
        if isinstance(node, ast.Assign) and not isinstance(node.value, LITERALS):
            continue
        names = [one for one in map(ast.unparse, targets) if one.isidentifier() and not one.startswith("_")]
        match node, behind:
            case ast.AnnAssign(), ast.Expr(ast.Constant(str())):
                pass
            case _:
                yield from names


def test_a_variable_without_a_type_or_a_docstring_is_complained_of():
    module = ast.parse("one: int\n'It.'\ntwo = 2\n'It.'\nthree: int\n_four = 4\nfive = one")
    assert list(silent(module.body)) == ["two", "three"]


@pytest.mark.parametrize("name", MODULES)
def test_variables_of_modules_have_types_and_say_what_they_are(name):
    module = importlib.import_module(name)
    assert not list(silent(ast.parse(Path(module.__file__).read_text()).body))


def test_modules_are_small():
    sizes = {path.relative_to(ROOT): path.read_text().count("\n") for path in ROOT.rglob("*.py")}
    assert len(sizes) > 100
    assert not {str(path): lines for path, lines in sizes.items() if lines > LONGEST}


def imports(body):
    """Imports of a module, those inside of functions as well, and not those that type checkers alone see."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from imports(ast.iter_child_nodes(node))


def loads(path, modules):
    """The modules of rk that a module imports."""
    for node in imports(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in modules)
        elif (node.module or "").split(".")[0] == "rk":
            within = [f"{node.module}.{one.name}" for one in node.names]
            yield from (name if name in modules else node.module for name in within)


def circle(arrows):
    """Modules that import each other in a round, or none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        path.append(name)
        found = next(filter(None, map(visit, arrows.get(name, ()))), None)
        path.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, arrows)), None)


def test_no_module_imports_itself_in_a_round():
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    modules = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("rk", *path.relative_to(ROOT).with_suffix("").parts)
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    arrows = {name: sorted(set(loads(path, modules)) - {name}) for name, path in modules.items()}
    assert sum(map(len, arrows.values())) > 300
    # A package's own __init__ may hand out what its modules define.
    inner = {name: [one for one in to if not name.startswith(f"{one}.")] for name, to in arrows.items()}
    assert circle(inner) is None
