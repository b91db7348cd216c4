"""Compiled autograd does not see what AOTAutograd keeps beside the saved tensors, where no version is
checked: the caller's tensors that backward reads as they are, and with codegen ``rk`` the number of the run.

A backward pass that lacks such arguments ends in an IndexError of PyTorch's: it is refused here.
"""

from __future__ import annotations

import functools
from typing import Any

from torch._dynamo.compiled_autograd import AutogradCompilerInstance

from rk.errors import ExecutionError


def install() -> None:
    """Refuses from now on."""
    proxied = AutogradCompilerInstance.proxy_call_aot_backward

    @functools.wraps(proxied)
    def checked(self: Any, pinputs: Any, psaved: Any, saved: Any, pctx: Any, ctx: Any, *args: Any) -> Any:
        if getattr(ctx, "_tensors_no_vc_check", None):
            raise ExecutionError(
                "compiled autograd runs a backward pass whose forward pass was compiled without it, and does "
                "not see all that was saved: have it on for both "
                "(torch._dynamo.config.compiled_autograd = True)"
            )
        return proxied(self, pinputs, psaved, saved, pctx, ctx, *args)

    AutogradCompilerInstance.proxy_call_aot_backward = checked
