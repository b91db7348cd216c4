"""The manual: its Python runs as it stands there, its links lead somewhere, its tables are complete."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rk

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<reason>[^>]+)|needs (?P<library>\w+)) -->\n)?```python\n(?P<code>.*?)```",
    re.DOTALL,
)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks of a page that run here, with the lines that they start at."""
    text = page.read_text()
    found = [one for one in BLOCK.finditer(text) if not one["reason"] and is_there(one["library"])]
    return [(text.count("\n", 0, one.start("code")), one["code"]) for one in found]


def is_there(library: str | None) -> bool:
    return library is None or importlib.util.find_spec(library) is not None


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What mkdocs calls the headings of a page."""
    found: set[str] = set()
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
        numbered = (f"{slug}_{count}" for count in itertools.count(1))
        found.add(next(one for one in itertools.chain([slug], numbered) if one not in found))
    return found


def test_the_description_of_the_wheel_stands_alone():
    described, readme = (ROOT / "frontend" / "python" / "README.md"), (ROOT / "README.md")
    shown, whole = (list(map(ast.dump, ast.parse(blocks(page)[0][1]).body)) for page in (described, readme))
    assert len(shown) == 4 and shown[:3] == whole[:3]
    # Nothing lies beside it where it is shown.
    assert not LINK.findall(described.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name)
def test_the_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for line, code in blocks(page):
        # Errors name the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)  # noqa: S102


def test_blocks_are_found():
    assert sum(len(blocks(page)) for page in PAGES) >= 25
    for page in PAGES:
        told = re.findall(r"<!-- (?:not run: |needs ).*? -->", page.read_text())
        marked = [one for one in BLOCK.finditer(page.read_text()) if one["reason"] or one["library"]]
        assert len(told) == len(marked), name(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for link in LINK.finditer(prose(page)):
        path, _, anchor = link["target"].partition("#")
        if path.startswith(("http:", "https:")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link['target']}"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link['target']}"


def test_every_page_is_in_the_manual():
    nav = (ROOT / "mkdocs.yml").read_text()
    absent = [page for page in PAGES[1:] if str(page.relative_to(ROOT / "docs")) not in nav]
    assert not absent


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "python-api.md").read_text()
    absent = [one for one in rk.__all__ if f"`rk.{one}" not in text]
    assert not absent


REFUSALS = (ROOT / "docs" / "refusals.md").read_text()
RAISED = {
    *("BudgetError", "CompileError", "ExecutionError", "OptionError", "TorchError", "VerifyError"),
    *("NotImplementedError", "RuntimeError", "ValueError", "_refused", "_unknown"),
}
"""Whom users meet; the last two make a CompileError."""


def pieces(node: ast.expr) -> list[str]:
    """The fixed parts of a message."""
    match node:
        case ast.Constant(str(text)):
            return [text]
        case ast.JoinedStr(values):
            return [text for value in values for text in pieces(value)]
        case ast.BinOp(left, ast.Add(), right):
            return [*pieces(left), *pieces(right)]
        case _:
            return []


def refusals() -> Iterator[tuple[str, str]]:
    """Where each error is raised, and the beginning of the longest fixed part of its message."""
    package = Path(rk.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            raised = ast.unparse(node.exc.func)
            # Where Inductor's kernels cannot be planned, the reason becomes part of a warning.
            if raised not in RAISED or (path.parent.name == "_inductor" and raised == "CompileError"):
                continue
            if fixed := [part for argument in node.exc.args for part in pieces(argument)]:
                longest = " ".join(max(fixed, key=len).split()).strip(" .,:;'()=")
                start = longest if len(longest) <= 30 else longest[:30].rsplit(" ", 1)[0]
                yield f"{path.relative_to(package)}:{node.lineno}", start


def test_every_refusal_is_explained():
    page = " ".join(REFUSALS.replace("`", "").split())
    found = list(refusals())
    assert len(found) >= 80
    assert not [f"{where}: {start}" for where, start in found if start not in page]


def test_every_error_is_explained():
    errors = [one for one in rk.__all__ if one.endswith("Error")]
    assert len(errors) >= 8
    assert not [one for one in errors if f"`rk.{one}`" not in REFUSALS]
