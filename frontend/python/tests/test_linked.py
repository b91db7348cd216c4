"""What extensions are linked to: what plans not to libtorch, what runs steps not to MLIR, none to CUDA."""

from pathlib import Path

import pytest

import rk

elffile = pytest.importorskip("elftools.elf.elffile")

TORCH, MLIR = ("libtorch", "libc10"), ("libMLIR", "libLLVM")
CUDA = ("libcuda", "libcudart", "libtorch_cuda", "libc10_cuda")


def needed(path):
    with path.open("rb") as file:
        tags = elffile.ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        return [tag.needed for tag in tags]


def begins(library, names):
    """Whether it is one of them: ``libtorch`` stands for ``libtorch_cpu.so``, too."""
    return any(library.startswith(name) for name in names)


def wrong(libraries, absent):
    return [library for library in libraries if begins(library, absent)]


@pytest.mark.parametrize(
    ("extension", "absent"),
    [
        ("_rk", (*TORCH, *CUDA)),
        ("_rk_runtime", (*MLIR, *CUDA)),
        ("_rk_memory", (*MLIR, *CUDA, "libtorch")),
    ],
)
def test_extensions_are_linked_to_what_they_may(extension, absent):
    libraries = needed(Path(rk.__file__).parent / f"{extension}.abi3.so")
    assert any(library.startswith("libc.so") for library in libraries)
    assert not wrong(libraries, absent)


def test_what_is_linked_too_much_is_named():
    libraries = ["libc.so.6", "libtorch_cuda.so", "libMLIR.so.22.1"]
    assert wrong(libraries, (*TORCH, *MLIR)) == ["libtorch_cuda.so", "libMLIR.so.22.1"]
    assert not wrong(libraries, ("libc10",))
