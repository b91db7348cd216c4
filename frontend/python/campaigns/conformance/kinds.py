"""One small program for each kind: what makes it of that kind is all that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from campaigns.conformance.training import Compile, blocks, mean_square, normal, state, trained

Program = Callable[[Compile], "list[Tensor]"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of program."""

    name: str
    program: Program
    cuda: bool = False
    """Whether it takes a GPU."""


KINDS: list[Kind] = []


def kind(name: str, *, cuda: bool = False) -> Callable[[Program], Program]:
    """Puts a program into the list."""

    def add(program: Program) -> Program:
        KINDS.append(Kind(name, program, cuda))
        return program

    return add


class Through(nn.Module):
    """Blocks, then a function, then blocks."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.function = blocks(), blocks(), function
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.function(self.first(x), *self.parts))


def through(compile: Compile, function: Callable[..., Any], *parts: nn.Module, **more: Any) -> list[Tensor]:
    """Trains a module that has the function in its middle."""
    return trained(compile, Through(function, *parts), normal(16, 64), **more)


# Functions and operators of the user's.


@kind("`torch.autograd.Function`")
def custom_function(compile):
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.abs() < 2)

    return through(compile, lambda x: Clipped.apply(x))


@kind("`torch.library.custom_op`")
def custom_op(compile):
    @torch.library.custom_op("conformance::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda ctx, gradient: gradient * 2)
    return through(compile, lambda x: twice(x))


@kind("a Triton kernel of the user's", cuda=True)
def triton_kernel(compile):
    import triton
    import triton.language as tl

    @triton.jit
    def double(source, target, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(target + at, tl.load(source + at, mask=at < count) * 2, mask=at < count)

    @torch.library.triton_op("conformance::double", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        target = torch.empty_like(x)
        torch.library.wrap_triton(double)[(triton.cdiv(x.numel(), 64),)](x, target, x.numel(), 64)
        return target

    doubled.register_autograd(lambda ctx, gradient: gradient * 2)
    return trained(compile, Through(doubled).cuda(), normal(16, 64).cuda())


# Attention.


def heads(x: Tensor) -> Tensor:
    return x.reshape(2, 8, 4, 16).transpose(1, 2)


@kind("`scaled_dot_product_attention`, math")
def attention_math(compile):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = lambda x: F.scaled_dot_product_attention(*[heads(x)] * 3).transpose(1, 2).reshape(16, 64)  # noqa: E731
    return through(compile, attend, around=lambda: sdpa_kernel(SDPBackend.MATH))


@kind("`scaled_dot_product_attention`, flash")
def attention_flash(compile):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(x):
        result = F.scaled_dot_product_attention(*[heads(x)] * 3, is_causal=True)
        return result.transpose(1, 2).reshape(16, 64)

    return through(compile, attend, around=lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION))


def attention_on_cuda(compile: Compile, backend: str) -> list[Tensor]:
    """Trains with one of the kernels of attention that only a GPU has, in half precision, as they want it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(x):
        result = F.scaled_dot_product_attention(*[heads(x).half()] * 3, is_causal=True)
        return result.float().transpose(1, 2).reshape(16, 64)

    around = lambda: sdpa_kernel(getattr(SDPBackend, backend))  # noqa: E731
    return trained(compile, Through(attend).cuda(), normal(16, 64).cuda(), around=around)


@kind("`scaled_dot_product_attention`, memory-efficient", cuda=True)
def attention_efficient(compile):
    return attention_on_cuda(compile, "EFFICIENT_ATTENTION")


@kind("`scaled_dot_product_attention`, cuDNN", cuda=True)
def attention_cudnn(compile):
    return attention_on_cuda(compile, "CUDNN_ATTENTION")


@kind("`flex_attention`", cuda=True)
def flex(compile):
    from torch.nn.attention.flex_attention import flex_attention

    model = Through(lambda x: flex_attention(*[heads(x)] * 3).transpose(1, 2).reshape(16, 64)).cuda()
    return trained(compile, model, normal(16, 64).cuda())


# Operators of higher order.


@kind("`torch.cond`")
def cond(compile):
    branch = lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))  # noqa: E731
    return through(compile, branch)


@kind("`scan`")
def scan(compile):
    from torch._higher_order_ops.scan import scan as run

    def steps(x):
        total, _ = run(lambda carry, row: (carry.sin() + row, carry.clone()), x[0], x, dim=0)
        return x + total

    return through(compile, steps)


@kind("`while_loop`")
def while_loop(compile):
    from torch._higher_order_ops.while_loop import while_loop as run

    def loop(x):
        count = torch.tensor(3)
        return run(lambda i, x: i > 0, lambda i, x: (i - 1, x.sin()), (count, x))[1]

    return through(compile, loop)


@kind("`nested_compile_region` (`invoke_subgraph`)")
def invoke_subgraph(compile):
    region = torch.compiler.nested_compile_region(lambda x: x.sin() * x)
    return through(compile, lambda x: region(region(x)))


# Elements, layouts and parameters out of the ordinary.


@kind("frozen `int8` weights with LoRA")
def quantised_base(compile):
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(
                "base", torch.arange(64 * 64).remainder(256).sub(128).to(torch.int8).view(64, 64)
            )
            self.down, self.up = nn.Linear(64, 4, bias=False), nn.Linear(4, 64, bias=False)

        def forward(self, x):
            return x @ (self.base.to(x.dtype) / 1024) + self.up(self.down(x))

    return through(compile, lambda x, adapted: F.gelu(adapted(x)), Adapted())


@kind("quantized tensors")
def quantised_tensor(compile):
    def there_and_back(x):
        return x + torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.qint8).dequantize()

    return through(compile, there_and_back)


@kind("parameters of a tensor subclass")
def subclass_parameters(compile):
    from torch.testing._internal.two_tensor import TwoTensor

    model = Through(torch.tanh)
    for layer in (model.first[0], model.last[5]):
        weight = layer.weight.detach()
        layer.weight = nn.Parameter(TwoTensor(weight, weight.clone()))
    return trained(compile, model, normal(16, 64))


@kind("sparse gradients (`nn.Embedding(sparse=True)`)")
def sparse_gradients(compile):
    model = nn.Sequential(nn.Embedding(32, 64, sparse=True), blocks())
    return trained(compile, model, torch.arange(16))


@kind("complex numbers")
def complex_numbers(compile):
    return through(compile, lambda x: torch.fft.irfft(torch.fft.rfft(x).sin(), n=64))


@kind("8-bit floats")
def float8(compile):
    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to(torch.float8_e4m3fn).to(x.dtype)

        @staticmethod
        def backward(ctx, gradient):
            return gradient.to(torch.float8_e5m2).to(gradient.dtype)

    return through(compile, lambda x: Rounded.apply(x))


@kind("nested tensors (`torch.jagged`) as inputs")
def jagged(compile):
    rows = torch.nested.nested_tensor([normal(3, 64), normal(5, 64)], layout=torch.jagged)
    return trained(compile, blocks(), rows, loss=lambda output: output.values().square().mean())


@kind("`channels_last`")
def channels_last(compile):
    layers = (nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3))
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    return trained(compile, model, normal(2, 3, 16, 16).to(memory_format=torch.channels_last))


@kind("parametrizations (`weight_norm`, `orthogonal`)")
def parametrizations(compile):
    from torch.nn.utils import parametrizations as on

    model = Through(lambda x, part: torch.tanh(part(x)), on.orthogonal(nn.Linear(64, 64)))
    on.weight_norm(model.first[0])
    return trained(compile, model, normal(16, 64))


@kind("`nn.LSTM`")
def recurrent(compile):
    return through(compile, lambda x, cell: cell(x.view(4, 4, 64))[0].reshape(16, 64), nn.LSTM(64, 64))


# What surrounds the model.


@kind("hooks of modules and of gradients")
def hooks(compile):
    model = Through(torch.tanh)
    model.first.register_forward_hook(lambda module, args, output: output * 0.5)
    model.last.register_full_backward_hook(lambda module, inputs, outputs: tuple(one * 2 for one in inputs))
    model.first[0].weight.register_hook(lambda gradient: gradient * 3)

    def clamp(weight):
        weight.grad.clamp_(-0.01, 0.01)

    model.last[0].weight.register_post_accumulate_grad_hook(clamp)
    return trained(compile, model, normal(16, 64))


@kind("hooks on saved tensors (`save_on_cpu`)")
def saved_tensor_hooks(compile):
    return through(compile, torch.tanh, around=torch.autograd.graph.save_on_cpu)


@kind("`torch.utils.checkpoint`, selective as well")
def checkpointed(compile):
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    def keep():
        return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])

    def regions(x, inner):
        x = checkpoint(inner, x, use_reentrant=False)
        return checkpoint(inner, x, use_reentrant=False, context_fn=keep)

    return through(compile, regions, blocks())


@kind("autocast with a `GradScaler`")
def autocast(compile):
    model = Through(torch.tanh)
    scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), lr=0.1)
    step, seen = compile(model), []
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = mean_square(step(normal(16, 64)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(loss.detach())
    return [*seen, *state(model)]


@kind("an optimizer that is compiled")
def compiled_optimizer(compile):
    model = Through(torch.tanh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step, update = compile(model), compile(optimizer.step)
    for _ in range(3):
        optimizer.zero_grad()
        mean_square(step(normal(16, 64))).backward()
        update()
    return list(state(model))


@kind("compiled autograd")
def compiled_autograd(compile):
    from torch._dynamo import compiled_autograd as patched

    enabled = lambda: patched._enable(compile)  # noqa: E731
    return through(compile, torch.tanh, around=enabled, backward=enabled)


@kind("graph breaks and branches on data")
def graph_breaks(compile):
    def broken(x):
        torch._dynamo.graph_break()
        return x.sin() if x.sum() > 0 else x.cos()

    return through(compile, broken)


@kind("sizes that depend on data")
def sizes_of_data(compile):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return through(compile, lambda x: x + x[torch.nonzero(x[:, 0] > 0).squeeze(1)].sum(0))


@kind("batches of many sizes")
def many_sizes(compile):
    model = Through(torch.tanh)
    step, seen = compile(model), []
    for rows in (4, 8, 12, 8):
        mean_square(step(normal(rows, 64))).backward()
        seen += [one.grad.clone() for one in model.parameters()]
    return seen


# torch.func.


@kind("`torch.func.functional_call` and `grad`")
def functional(compile):
    model = Through(torch.tanh)
    weights = {name: one.detach().clone().requires_grad_() for name, one in model.named_parameters()}
    loss = lambda weights, x: mean_square(torch.func.functional_call(model, weights, x))  # noqa: E731
    inner = lambda weights, x: torch.func.grad(loss)(weights, x)  # noqa: E731
    gradients = compile(inner)(weights, normal(16, 64))
    mean_square(list(gradients.values())).backward()
    return [*(one.detach() for one in gradients.values()), *(one.grad for one in weights.values())]


@kind("ensembles (`vmap` over stacked weights)")
def ensemble(compile):
    members = [blocks() for _ in range(3)]
    weights, _ = torch.func.stack_module_state(members)
    weights = {name: one.detach().requires_grad_() for name, one in weights.items()}
    call = lambda weights, x: torch.func.functional_call(members[0], weights, x)  # noqa: E731
    step = compile(lambda weights, x: torch.func.vmap(call, in_dims=(0, None))(weights, x))
    mean_square(step(weights, normal(16, 64))).backward()
    return [one.grad for one in weights.values()]


@kind("second derivatives (`create_graph=True`)")
def second_derivatives(compile):
    model, x = Through(torch.tanh), normal(16, 64).requires_grad_()
    (gradient,) = torch.autograd.grad(mean_square(compile(model)(x)), x, create_graph=True)
    gradient.square().sum().backward()
    return [x.grad, *(one.grad for one in model.parameters())]
