"""The Python API: for each public name its signature and docstring, and those of what it returns."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import typing
from types import ModuleType
from typing import Any

import rk


def text() -> str:
    """A section for each name, in alphabetical order; behind them the classes of rk that functions return."""
    public = {name: getattr(rk, name) for name in sorted(rk.__all__, key=str.lower)}
    parts = [_section(f"rk.{name}", value) for name, value in public.items()]
    for name, value in public.items():
        for made in _returned(value):
            parts.append(_section(f"What rk.{name} returns: {made.__name__}", made, signature=False))
    return "\n\n".join(parts)


def _section(name: str, value: Any, *, signature: bool = True) -> str:
    parts = [f"### {name}"]
    if signature and not isinstance(value, ModuleType) and (shown := _signature(name, value)):
        parts.append(f"```text\n{shown}\n```")
    parts.append(_markdown(inspect.getdoc(value) or ""))
    if signature and (made := _constructor(value)):
        parts.append(_markdown(made))
    if rows := [f"| `{member}` | {_cell(about)} |" for member, about in _members(value)]:
        parts.append("\n".join(["| name | meaning |", "|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        bases = [_name(base) for base in value.__bases__]
        return f"class {name}({', '.join(bases)})"
    parameters = [_parameter(one) for one in inspect.signature(value).parameters.values()]
    kinds = [one.kind for one in inspect.signature(value).parameters.values()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    if keyword in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(keyword), "*")
    made = "" if inspect.isclass(value) else inspect.signature(value).return_annotation
    arrow = f" -> {made}" if made and made is not inspect.Signature.empty else ""
    line = f"{name}({', '.join(parameters)}){arrow}"
    if len(line) <= 110:
        return line
    inside = "".join(f"    {one},\n" for one in parameters)
    return f"{name}(\n{inside}){arrow}"


def _name(one: type) -> str:
    home = one.__module__.split(".")[0]
    return one.__name__ if home == "builtins" else f"{home}.{one.__name__}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    shown = f"{stars}{one.name}"
    if one.annotation is not inspect.Parameter.empty:
        shown += f": {one.annotation}"
    if one.default is not inspect.Parameter.empty:
        shown += f" = {getattr(one.default, '__name__', None) or repr(one.default)}"
    return shown


def _returned(value: Any) -> list[type]:
    """The class of rk that a function returns, or returns a list of; if a class of rk is that list, both."""
    if not inspect.isfunction(value):
        return []
    names = re.findall(r"\w+", str(value.__annotations__.get("return", "")))
    module = sys.modules[value.__module__]
    found = [made for name in names if inspect.isclass(made := getattr(module, name, None))]
    mine = [made for made in found if made.__module__.startswith("rk.")][:1]
    bases = [base for made in mine for base in getattr(made, "__orig_bases__", ())]
    inside = [one for base in bases for one in typing.get_args(base)]
    return [*mine, *(one for one in inside if getattr(one, "__module__", "").startswith("rk."))]


def _members(value: Any) -> list[tuple[str, str]]:
    """Public fields, properties and methods that say what they are, as they stand in the source."""
    if isinstance(value, ModuleType):
        return _of_module(value)
    if not inspect.isclass(value) or not value.__module__.startswith("rk."):
        return []
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    except (OSError, TypeError):
        return []
    assert isinstance(body, ast.ClassDef)
    found: list[tuple[str, str]] = []
    for node, behind in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            called = "" if _is_property(node) else f"({_names(node.args)})"
            found.append((f"{node.name}{called}", ast.get_docstring(node) or ""))
        elif isinstance(node, ast.AnnAssign):
            found.append((ast.unparse(node.target), _string(behind)))
    return [(name, about) for name, about in found if about and not name.startswith("_")]


def _of_module(module: ModuleType) -> list[tuple[str, str]]:
    """What a module hands out, and under which other names."""
    found: list[tuple[str, str]] = []
    names = getattr(module, "__all__", ())
    for name in names:
        one = getattr(module, name)
        if not hasattr(one, "__name__"):
            # A variable, which says behind its value what it is.
            continue
        call = "" if isinstance(one, ModuleType) else "()"
        own = one.__name__ if isinstance(one, ModuleType) or one.__name__ in names else name
        about = _sentence(inspect.getdoc(one) or "") if own == name else f"Another name of ``{own}{call}``."
        found.append((f"{name}{call}", about))
    known = {name for name, _ in found}
    body = ast.parse(inspect.getsource(module)).body
    variables = (
        (ast.unparse(node.target), _string(behind))
        for node, behind in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign)
    )
    return [*found, *((name, about) for name, about in variables if about and name not in known)]


def _sentence(doc: str) -> str:
    """The first one; the rest stands where the name itself is described."""
    return re.split(r"(?<=\w[.:;])\s", doc, maxsplit=1)[0].rstrip(":;")


def _constructor(value: Any) -> str:
    """What a class says of the arguments it is made with; errors are not made by users."""
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return ""
    _, args, rest = (inspect.getdoc(value.__init__) or "").partition("\nArgs:\n")
    return f"{args.lstrip()}{rest}"


def _names(arguments: ast.arguments) -> str:
    """The parameters of a method, without their types."""
    for one in ast.walk(arguments):
        if isinstance(one, ast.arg):
            one.annotation = None
    shown = ast.unparse(arguments).split(", ")
    return ", ".join(shown[1:])


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)


def _string(node: ast.stmt | None) -> str:
    """The string that stands alone behind a field."""
    match node:
        case ast.Expr(ast.Constant(str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _markdown(doc: str) -> str:
    """A docstring as a page has it: roles and double backticks are reStructuredText's."""
    plain = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", _listed(doc)).replace("``", "`")
    examples = re.compile(r"(?:^>>> .*\n?|^\.\.\. .*\n?)+", re.MULTILINE)
    return examples.sub(lambda one: f"```text\n{one[0].strip()}\n```\n", plain).strip()


def _listed(doc: str) -> str:
    """A docstring with its sections (``Args:``, ``Returns:``, ``Yields:``, ``Raises:``) as lists."""
    lines: list[str] = []
    section = ""
    for line in doc.splitlines():
        if line in ("Args:", "Returns:", "Yields:", "Raises:"):
            section = line[:-1]
            lines += [f"**{section}**", ""]
        elif section in ("Args", "Raises") and (entry := re.match(r"    (\*{0,2}\w+): (.*)", line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif section and line.startswith("    "):
            lines.append(f"  {line.strip()}" if section in ("Args", "Raises") else line.strip())
        else:
            section = section if not line else ""
            lines.append(line)
    return "\n".join(lines)


def _cell(doc: str) -> str:
    """The first paragraph in one line."""
    return " ".join(_markdown(doc).split("\n\n")[0].split()).replace("|", "\\|")
