"""The dialect: what mlir-tblgen makes of its definitions, with headings that fit into a page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

LLVM = Path("/usr/lib/llvm-22")


def tablegen() -> str | None:
    """The program of LLVM that reads the definitions, where Debian has it or on the path."""
    return shutil.which("mlir-tblgen", path=f"{LLVM / 'bin'}") or shutil.which("mlir-tblgen")


def text(root: Path) -> str:
    """Operations, attributes and types; the preface of the dialect is on the page of the IR."""
    program, definitions = tablegen(), root / "dialect" / "td"
    if program is None:
        raise FileNotFoundError("there is no mlir-tblgen of LLVM 22")
    include = [f"-I{LLVM / 'include'}", f"-I{definitions}"]
    command = [program, "-gen-dialect-doc", "-dialect=rk", *include, str(definitions / "Ops.td")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, _, made = made.partition("[TOC]")
    made = re.sub(r"^#### (\w+):$", r"**\1**", made, flags=re.MULTILINE)
    made = re.sub(r"^### `(rk\.\w+)` \(::rk::\w+\)$", r"### \1", made, flags=re.MULTILINE)
    made = re.sub(r"^(```)\n(operation|#rk)", r"\1text\n\2", made, flags=re.MULTILINE)
    made = "\n".join(line.rstrip() for line in made.splitlines())
    return re.sub(r"\n{3,}", "\n\n", made).strip()
