"""Inductor's own classes, extended: they behave as ever unless a graph of rk's is being compiled.

The wrapper's final lines are handed to whoever compiles (:data:`COMPILING`). On the CPU, Inductor glues
kernels that follow each other into one function and frees what is dead behind it; with a pinned plan each is
ended at once, so that memory is given back where the plan says, as Triton's kernels do it.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch._inductor.config
from torch._inductor.codegen import common, wrapper
from torch._inductor.codegen.cpp import CppScheduling


class Compiling:
    """What is being compiled."""

    def __init__(self, lines: Callable[[Sequence[Any]], None], *, pinned: bool) -> None:
        """``lines`` takes the wrapper's lines."""
        self.lines, self.pinned = lines, pinned


COMPILING: contextvars.ContextVar[Compiling | None] = contextvars.ContextVar("rk_compiling", default=None)


@contextlib.contextmanager
def compiling(about: Compiling) -> Iterator[None]:
    """While this lasts, Inductor compiles a graph of rk's on this thread."""
    install()
    token = COMPILING.set(about)
    try:
        yield
    finally:
        COMPILING.reset(token)


class Wrapper(wrapper.PythonWrapperCodegen):
    """Shows its lines when they are final."""

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> wrapper.PythonWrapperCodegen:
        """The wrapper of a graph; of graphs inside of it, and of other people's, Inductor's own."""
        is_subgraph = kwargs.get("is_subgraph", args[0] if args else False)
        if COMPILING.get() is None or is_subgraph:
            return wrapper.PythonWrapperCodegen.create(*args, **kwargs)
        return Wrapper()

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        """The last change of the lines."""
        super().run_wrapper_ir_passes(is_inference)
        COMPILING.get().lines(list(self.lines))


class Cpp(CppScheduling):
    """Ends a function of C++ after every kernel of a pinned plan."""

    def ready_to_flush(self) -> bool:
        """Whether the code so far is ended, and what is dead is freed."""
        about = COMPILING.get()
        return about is not None and about.pinned or super().ready_to_flush()


@functools.cache
def install() -> None:
    """Registers the classes, once."""
    common.init_backend_registration()
    for device, scheduling in (("cpu", _scheduling), ("cuda", None)):
        known = common.device_codegens[device]
        if known.wrapper_codegen is wrapper.PythonWrapperCodegen:
            common.register_backend_for_device(
                device,
                functools.partial(scheduling, known.scheduling) if scheduling else known.scheduling,
                Wrapper,
                known.cpp_wrapper_codegen,
                known.fx_wrapper_codegen,
            )


def _scheduling(known: Callable[[Any], Any], scheduler: Any) -> Any:
    own = torch._inductor.config.cpu_backend == "cpp" and COMPILING.get() is not None
    return Cpp(scheduler) if own else known(scheduler)
