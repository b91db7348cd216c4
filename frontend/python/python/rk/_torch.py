"""What rk takes from inside of PyTorch: each private part, and the versions of torch in which it was seen.

A part is private if a component of its name begins with an underscore, or is ``experimental``. No module
of rk uses one that is not listed here (``tests/test_torch.py`` reads all sources). Each was seen in every
version of :data:`SEEN`; a test looks again, and ``cargo xtask matrix`` runs that with all versions. So a
torch that lacks one is refused by one error that names the part, before anything is compiled.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import torch

from rk.errors import TorchError

SEEN = ("2.11", "2.12", "2.13", "2.14", "2.15")
"""The versions of torch that rk was tested with, oldest first."""

RUNTIME = "2.11.0"
"""The torch that ``rk._rk_runtime`` is linked to. Another one has another layout of libtorch's objects."""

PARTS = {
    # Operators, tensors, the profiler that tells of memory, and switches of kernels.
    "planning a step": (
        "torch.Tensor._version",
        "torch.UntypedStorage._cdata",
        "torch._C._DisableAutocast",
        "torch._C._DisableTorchDispatch",
        "torch._C._autograd._disable_profiler_legacy",
        "torch._C._autograd._enable_profiler_legacy",
        "torch._C._get_blas_preferred_backend",
        "torch._C._get_cublas_allow_bf16_reduced_precision_reduction",
        "torch._C._get_cublas_allow_fp16_accumulation",
        "torch._C._get_cublas_allow_fp16_reduced_precision_reduction",
        "torch._C._get_cudnn_benchmark",
        "torch._C._get_cudnn_deterministic",
        "torch._C._get_cudnn_enabled",
        "torch._C._get_cudnn_sdp_enabled",
        "torch._C._get_deterministic_algorithms",
        "torch._C._get_deterministic_algorithms_warn_only",
        "torch._C._get_flash_sdp_enabled",
        "torch._C._get_fp32_precision_getter",
        "torch._C._get_math_sdp_enabled",
        "torch._C._get_mem_efficient_sdp_enabled",
        "torch._C._get_mkldnn_deterministic",
        "torch._C._get_mkldnn_enabled",
        "torch._C._get_nnpack_enabled",
        "torch._C._has_storage",
        "torch._C._profiler._EventType.Allocation",
        "torch._C._profiler._ExperimentalConfig",
        "torch._C._set_cublas_allow_bf16_reduced_precision_reduction",
        "torch._C._set_cublas_allow_fp16_accumulation",
        "torch._C._set_cublas_allow_fp16_reduced_precision_reduction",
        "torch._C._set_cudnn_benchmark",
        "torch._C._set_cudnn_deterministic",
        "torch._C._set_cudnn_enabled",
        "torch._C._set_deterministic_algorithms",
        "torch._C._set_fp32_precision_setter",
        "torch._C._set_mkldnn_deterministic",
        "torch._C._set_mkldnn_enabled",
        "torch._C._set_nnpack_enabled",
        "torch._debug_has_internal_overlap",
        "torch._library.custom_ops.CustomOpDef",
        "torch._logging._internal.trace_log",
        "torch._logging._internal.trace_structured_artifact",
        "torch._ops.HigherOrderOperator",
        "torch._ops.OpOverload",
        "torch._ops.OpOverloadPacket",
        "torch.autograd._profiler_enabled",
        "torch.ops.aten._efficient_attention_backward.default",
        "torch.ops.aten._local_scalar_dense.default",
        "torch.ops.aten._native_batch_norm_legit.default",
        "torch.ops.aten._native_batch_norm_legit.no_stats",
        "torch.ops.aten._native_batch_norm_legit_functional.default",
        "torch.ops.aten._scaled_dot_product_efficient_attention_backward.default",
        "torch.compiler._is_compiling_flag",
        "torch.utils._python_dispatch._disable_current_modes",
        "torch.utils._pytree.tree_leaves",
        "torch.utils._pytree.tree_map",
        "torch.utils._pytree.tree_map_only",
        "torch.utils._pytree.tree_structure",
        "torch.utils._pytree.tree_unflatten",
    ),
    "a distributed run": (
        "torch.distributed.distributed_c10d._get_default_store",
        "torch.distributed.fsdp._fully_shard._fsdp_collectives.AllGatherResult.all_gather_output",
        "torch.distributed.fsdp._fully_shard._fsdp_param.FSDPParam",
    ),
    "torch.compile": (
        "torch.Tensor._has_symbolic_sizes_strides",
        "torch._C._autograd._get_current_graph_task_keep_graph",
        "torch._C._autograd._top_saved_tensors_default_hooks",
        "torch._dynamo.compiled_autograd.AutogradCompilerInstance.proxy_call_aot_backward",
        "torch._dynamo.backends.common.aot_autograd",
        "torch._dynamo.backends.debugging.boxed_nop",
        "torch._dynamo.config.allow_rnn",
        "torch._dynamo.config.patch",
        "torch._dynamo.convert_frame.ConvertFrameAssert.__call__",
        "torch._dynamo.decorators.skip_code",
        "torch._dynamo.eval_frame.OptimizeContext.__call__",
        "torch._dynamo.eval_frame._stance.stance",
        "torch._dynamo.eval_frame.innermost_backend",
        "torch._dynamo.config.ignore_logging_functions",
        "torch._dynamo.exc.BackendCompilerFailed",
        "torch._dynamo.exc.Unsupported",
        "torch._dynamo.external_utils.wrap_inline",
        "torch._dynamo.trace_rules.check",
        "torch._dynamo.utils.graph_break_reasons",
        "torch._functorch._aot_autograd.utils.saved_tensors_hooks_are_inlineable",
        "torch._functorch._aot_autograd.utils.top_saved_tensors_hooks",
        "torch._higher_order_ops.effects.has_effects",
        "torch._subclasses.fake_tensor.FakeTensor",
        "torch._subclasses.fake_tensor.FakeTensorMode",
        "torch._subclasses.functional_tensor.FunctionalTensor",
        "torch.autograd.Variable._execution_engine.queue_callback",
        "torch.autograd._get_sequence_nr",
        "torch.autograd.graph.Node._input_metadata",
        "torch.autograd.graph.Node._sequence_nr",
        "torch.fx._lazy_graph_module._make_graph_module",
        "torch.fx.experimental.symbolic_shapes.ShapeEnv",
        "torch.nn.Module._call_impl",
    ),
    "codegen='inductor'": (
        "torch._functorch.config.patch",
        "torch._functorch.partitioners.min_cut_rematerialization_partition",
        "torch._inductor.choices.InductorChoices.can_fuse",
        "torch._inductor.codegen.common.device_codegens",
        "torch._inductor.codegen.common.init_backend_registration",
        "torch._inductor.codegen.common.register_backend_for_device",
        "torch._inductor.codegen.cpp.CppScheduling",
        "torch._inductor.codegen.wrapper.AllocateLine",
        "torch._inductor.codegen.wrapper.ExternKernelAllocLine",
        "torch._inductor.codegen.wrapper.ExternKernelOutLine",
        "torch._inductor.codegen.wrapper.FreeIfNotReusedLine",
        "torch._inductor.codegen.wrapper.FreeLine",
        "torch._inductor.codegen.wrapper.MultiOutputLine",
        "torch._inductor.codegen.wrapper.PythonWrapperCodegen.create",
        "torch._inductor.codegen.wrapper.ReinterpretLine",
        "torch._inductor.codegen.wrapper.ReuseLine",
        "torch._inductor.compile_fx._recursive_post_grad_passes",
        "torch._inductor.compile_fx._recursive_record_original_output_strides",
        "torch._inductor.compile_fx.compile_fx",
        "torch._inductor.compile_fx.compile_fx_inner",
        "torch._inductor.compile_fx.fake_tensor_prop",
        "torch._inductor.compile_fx.view_to_reshape",
        "torch._inductor.config.cpu_backend",
        "torch._functorch.config._config",
        "torch._inductor.config._config",
        "torch._inductor.config.patch",
        "torch._inductor.custom_graph_pass.CustomPartitionerFn",
        "torch._inductor.debug.DebugContext",
        "torch._inductor.graph.GraphLowering._update_scheduler",
        "torch._inductor.ir.ExternKernel",
        "torch._inductor.ir.IRNode",
        "torch._inductor.ir.InplaceBernoulliFallback",
        "torch._inductor.ir.MultiOutput",
        "torch._inductor.ir.MultiOutputLayout",
        "torch._inductor.ir.MutationLayoutSHOULDREMOVE",
        "torch._inductor.ir.NonOwningLayout",
        "torch._inductor.ir.NoneAsConstantBuffer",
        "torch._inductor.ir.NoneLayout",
        "torch._inductor.ir.ShapeAsConstantBuffer",
        "torch._inductor.scheduler.BaseSchedulerNode",
        "torch._inductor.scheduler.ExternKernelSchedulerNode",
        "torch._inductor.scheduler.NopKernelSchedulerNode",
        "torch._inductor.scheduler.OutputNode",
        "torch._inductor.scheduler.SchedulerNode",
        "torch._inductor.utils.get_donated_idxs",
        "torch._inductor.virtualized.V",
    ),
    "codegen='rk'": (
        "torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs",
        "torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors",
        "torch._dynamo.compiled_autograd.depth",
        "torch._dynamo.config.compiled_autograd",
    ),
    "rk.Checkpointable": ("torch._C._functorch.peek_interpreter_stack",),
    "rk.memory_budget": (
        "torch.Tensor._indices",
        "torch.Tensor._make_wrapper_subclass",
        "torch.Tensor._use_count",
        "torch.Tensor._values",
        "torch._C.TensorBase.data.__get__",
        "torch._C._AutoDispatchBelowAutograd",
        "torch._C._current_graph_task_id",
        "torch._C._disabled_torch_function_impl",
        "torch._C._set_conj",
        "torch._C._set_neg",
        "torch._C._set_storage_data_ptr_access_error_msg",
        "torch._is_zerotensor",
        "torch._subclasses.FakeTensor",
        "torch.utils._mode_utils.no_dispatch",
        "torch.utils._python_dispatch.TorchDispatchMode",
        "torch.utils._python_dispatch._get_current_dispatch_mode_stack",
        "torch.utils._python_dispatch._pop_mode_temporarily",
    ),
    # A torch without CUDA has the names, except the first one.
    "a GPU": (
        "torch._C._cuda_isHistoryEnabled",
        "torch.cuda._sleep",
        "torch.cuda.memory._record_memory_history",
        "torch.cuda.memory._snapshot",
    ),
}
"""Parts by what needs them; each a path from ``torch`` on."""

ON_OBJECTS = {
    "_has_rebuilt_buckets": "whether a DistributedDataParallel has had its first step",
    "_local_tensor": "this process's part of a torch.distributed.tensor.DTensor",
    "_unsharded_param": "what FSDP2 has gathered of a parameter, on its torch.distributed.fsdp FSDPParam",
    "_body": "what a torch._inductor.scheduler.SchedulerNode computes, as loops",
    "_boxed_call": "a function that takes its arguments in a list that it may empty, to AOTAutograd",
    "_flat_weight_refs": "of what tensors an nn.RNNBase has made its list of weights",
    "_flat_weights": "that list",
    "_flat_weights_names": "the names of the parameters in it",
    "_opoverload": "the operator of a torch._library.custom_ops.CustomOpDef",
    "_raw_saved_tensors": "what a function in C++ has saved; one in Python has none, which is asked",
    "_schema": "the schema of a torch._ops.OpOverload",
    "_transform_input": "how a GoogLeNet or Inception of torchvision scales its input",
    "_torchdynamo_wrapper_id": "what torch.compile looks for on a function that wraps a compiled one",
}
"""Private attributes that objects have and their classes have not."""


@functools.cache
def check(*needs: str) -> None:
    """Raises TorchError if this torch lacks a part, and warns once of a torch that rk was not tested with."""
    _look_at_version()
    for need in needs:
        missing = [part for part in PARTS[need] if not is_there(part)]
        if missing:
            raise TorchError(
                f"rk needs {', '.join(missing)} for {need}, which torch {torch.__version__} does not have; "
                f"rk was tested with torch {SEEN[0]} to {SEEN[-1]}"
            )


def is_there(part: str) -> bool:
    """Whether this torch has a part; imports the modules on its path."""
    names = part.split(".")
    found: Any = torch
    for place, name in enumerate(names[1:], 2):
        try:
            found = getattr(found, name)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(names[:place]))
            except ImportError:
                return False
    return True


def refuse_runtime() -> str | None:
    """Why ``codegen='rk'`` does not work with this torch; None if it does."""
    if torch.__version__.split("+")[0] == RUNTIME:
        return None
    return (
        f"codegen='rk' runs with torch {RUNTIME}, to which its extension is linked, and this is torch "
        f"{torch.__version__}; codegen='fx' and codegen='inductor' run with both"
    )


def is_unseen() -> bool:
    """Whether this torch is newer than all that rk was tested with."""
    return _version(torch.__version__) > _version(SEEN[-1])


def gives_gradients_up() -> bool:
    """Whether a compiled backward pass may let go of the gradients that it is given before it is over."""
    return _version(torch.__version__) >= (2, 13)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


@functools.cache
def _look_at_version() -> None:
    if _version(torch.__version__) < _version(SEEN[0]):
        raise TorchError(f"rk needs torch {SEEN[0]} or newer, and this is torch {torch.__version__}")
    if is_unseen():
        warnings.warn(
            f"rk: torch {torch.__version__} is newer than {SEEN[-1]}, the newest that rk was tested with; "
            "options={'verify': True} compares the bits of the first steps",
            stacklevel=2,
        )
