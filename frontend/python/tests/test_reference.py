"""The generated parts of the manual are what their sources say now."""

from __future__ import annotations

import re

import pytest

import rk
from reference import api, dialect, pages, tools

ABSENT = {
    "command-lines": None if tools.are_built() else f"the tools are not built in {tools.folder()}",
    "dialect": None if dialect.tablegen() else "mlir-tblgen of LLVM 22 is not installed",
}


@pytest.mark.parametrize("name", pages.PAGES)
def test_pages_are_current(name):
    if reason := ABSENT.get(name):
        pytest.skip(reason)
    page = pages.PAGES[name]
    assert page.path.read_text() == page.text(), "cargo xtask docs"


def test_every_section_says_something():
    sections = re.split(r"^### ", api.text(), flags=re.MULTILINE)[1:]
    assert len(sections) >= 30
    assert not [one.splitlines()[0] for one in sections if len(re.sub(r"```.*?```", "", one).split()) < 8]


def test_what_a_docstring_marks_is_marked_on_the_page():
    assert api._markdown("As :func:`plan`, in ``bytes``.") == "As `plan`, in `bytes`."


def test_sections_of_a_docstring_are_lists_on_the_page():
    doc = "Does.\n\nArgs:\n    x: What comes\n        in.\n    **more: Rest.\n\nReturns:\n    It: all."
    assert api._markdown(doc) == (
        "Does.\n\n**Args**\n\n- `x`: What comes\n  in.\n- `**more`: Rest.\n\n**Returns**\n\nIt: all."
    )


def test_a_module_lists_each_thing_once():
    rows = dict(api._of_module(rk.rkgb))
    assert {"make_B()", "print_graph()", "Btools"} <= set(rows)
    assert rows["print_D_graph()"] == "Another name of ``print_graph()``."
    assert rows["Atools"] == "Another name of ``rk.rkgb``."


def test_every_key_of_a_step_file_is_explained():
    explained = set(re.findall(r"`(\w+)`", (pages.FOLDER / "step-file.md").read_text()))
    folder = pages.ROOT / "codegen/step/src"
    sources = [folder / "model.rs", *sorted((folder / "model").glob("*.rs"))]
    kept = re.compile(r"#\[derive\([^)]*Deserialize[^)]*\)\][^{]*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
    bodies = [body for path in sources for body in kept.findall(path.read_text())]
    keys = {key for body in bodies for key in re.findall(r"^    pub (\w+):", body, re.MULTILINE)}
    assert len(keys) > 60 and not keys - explained


def test_every_environment_variable_is_explained():
    explained = set(re.findall(r"`(RK_\w+)`", (pages.FOLDER / "environment.md").read_text()))
    folders = ("codegen", "dialect", "examples", "frontend", "lit-tests", "passes", "tools", "vocabulary")
    sources = [
        file
        for folder in folders
        for kind in ("rs", "py")
        for file in (pages.ROOT / folder).rglob(f"*.{kind}")
    ]
    named = {one for file in sources for one in re.findall(r'(?<!define\()"(RK_[A-Z_]+)"', file.read_text())}
    assert len(named) >= 15 and not named - explained
