"""Writes a program as a script that stands by itself: the model written out, and what its caller does."""

from __future__ import annotations

from collections.abc import Iterator

from campaigns.pieces import PIECES
from campaigns.program import Program
from campaigns.ways import Way

HEAD = """import contextlib, io, os, tempfile, warnings
os.environ.setdefault("RK_CACHE_DIR", tempfile.mkdtemp())
import torch, rk
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from rk._codegen import bits
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch._dynamo.config.allow_rnn = True
"""

TAIL = """
def tensors(value):
    return [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]

def noted(name, *values):
    plain = (rk.decheckpoint(one).detach() for one in tensors(values))
    dense = (one.to_dense() if one.is_sparse else one.clone() for one in plain)
    return [(f"{name}.{i}", one) for i, one in enumerate(dense)]

def loss_of(output):
    found = [one for one in tensors(output) if one.requires_grad]
    if len(found) == 1 and found[0].dim() == 0:
        return found[0]
    if not found:
        return tensors(output)[0].float().sum()
    return sum(one.abs().float().square().mean() for one in found)

def attempt(name, wrap, context=None, right=None):
    try:
        found = train(wrap, context or contextlib.nullcontext())
    except Exception as error:
        error = getattr(error, "inner_exception", None) or error
        print(f"{name:12} {type(error).__name__}: {str(error)[:300]}")
        return None
    wrong = [n for (n, a), (_, b) in zip(right or found, found, strict=True) if not bits.equal(a, b)]
    print(f"{name:12} ran, {wrong or 'equal'}")
    return found

eager = attempt("eager", lambda one: one)
"""


def script(program: Program, way: Way, header: str, budget: int | None = None) -> str:
    """The text."""
    parts = [f'"""{header}\n\n{program}\n"""', HEAD, *_sources(program), "\n".join(_model(program))]
    parts += ["\n".join(_training(program)), TAIL.strip("\n"), "\n".join(_ways(way, program, budget))]
    return "\n\n".join(parts) + "\n"


def _sources(program: Program) -> list[str]:
    found: list[str] = []
    for layer in program.layers:
        found += [one for one in PIECES[layer.piece].sources() if one not in found]
    return found


def _model(program: Program) -> Iterator[str]:
    yield "class Model(nn.Module):"
    yield "    def __init__(self):"
    yield "        super().__init__()"
    calls = []
    for place, layer in enumerate(program.layers):
        piece = PIECES[layer.piece]
        more = [f"{name}={value!r}" for name, value in layer.parameters.items()]
        values = [f"x{place}", *piece.takes]
        if isinstance(piece.make, type):
            yield f"        self.part{place} = {layer.piece}({', '.join([str(program.width), *more])})"
            call = f"self.part{place}({', '.join(values)})"
        else:
            call = f"{layer.piece}({', '.join([*values, *more])})"
        if layer.skip:
            call += f" + x{max(0, place + 1 - layer.skip)}"
        calls.append(f"        x{place + 1} = {call}")
    yield f"    def forward(self, {', '.join(['x0', *program.takes()])}):"
    yield from calls
    y, x = f"x{len(program.layers)}", "x0"
    hidden = "".join(f", x{place}" for place in range(1, len(program.layers)))
    yield (
        "        return "
        + {
            "loss": f"{y}.float().square().mean()",
            "losses": f"{y}.float().square().mean(), {y}.float().abs().mean()",
            "tensor": y,
            "tuple": f"{y}, {y}.sin()",
            "dict": f"{{'rows': {y}, 'best': {y}.argmax(1), 'more': [{y}.t(), {y}.mean()], 'name': 'some'}}",
            "with input": f"{y}, {x}",
            "with view": f"{y}, {y}[:, :2], {x}.view_as({x})",
            "with none": f"None, {y}, 3",
            "with hidden": f"{y}{hidden},",
            "with buffer": f"{y}, next(iter(self.buffers()), None)",
            "with detached": f"{y}, {y}.detach()",
        }[program.output]
    )


def _training(program: Program) -> Iterator[str]:
    p, w = program, program.width
    takes = p.takes()
    yield "def train(wrap, context):"
    yield f"    torch._dynamo.reset(); torch.manual_seed({p.seed % 2**31})"
    yield f"    dtype = torch.{p.dtype}"
    yield "    model = Model().to(dtype)"
    yield f"    scale, shift = torch.full((), 0.75).to(dtype), torch.linspace(-1, 1, {w}, dtype=dtype)"
    yield f"    state, seen = torch.linspace(0, 1, {w}, dtype=dtype), []"
    trained = "(one for one in model.parameters() if one.requires_grad)"
    if "parameter" in p.hooks:
        yield f"    for one in {trained}: one.register_hook(lambda gradient: gradient * 0.5)"
    if "accumulated" in p.hooks:
        yield "    def halve(parameter): parameter.grad.mul_(0.5)"
        yield f"    for one in {trained}: one.register_post_accumulate_grad_hook(halve)"
    children = "list(model.children())"
    if "module forward" in p.hooks:
        yield f"    {children}[-1].register_forward_hook(lambda module, inputs, output: output * 1.5)"
    if "module backward" in p.hooks:
        yield f"    {children}[0].register_full_backward_hook(lambda module, into, out: None)"
    if p.wrap == "function":
        yield "    run = wrap(lambda *args: model(*args))"
    elif p.wrap == "layers":
        yield "    for name, part in model.named_children(): setattr(model, name, wrap(part))"
        yield "    run = model"
    else:
        yield "    run = wrap(model)"
    make = {"sgd": "SGD(trained, lr=0.05, momentum=0.9)", "adamw": "AdamW(trained, lr=0.01)"}.get(p.optimizer)
    yield f"    trained = list{trained}"
    yield f"    optimizer = torch.optim.{make} if trained else None" if make else "    optimizer = None"
    yield f"    for step, rows in enumerate({p.batches!r}):"
    yield "        model.zero_grad()"
    yield f"        for turn in range({p.rounds}):"
    yield "            with context:"
    yield "                losses = []"
    yield f"                for number in range({p.forwards}):"
    deep = 20 * " "
    yield f"{deep}source = torch.Generator().manual_seed((step * 10 + turn) * 10 + number)"
    yield f"{deep}x = " + {
        "transposed": f"torch.randn({w}, rows, generator=source).to(dtype).t()",
        "expanded": f"torch.randn(1, {w}, generator=source).to(dtype).expand(rows, {w})",
        "sliced": f"torch.randn(rows, {2 * w}, generator=source).to(dtype)[:, ::2]",
        "offset": f"torch.randn(rows + 1, {w}, generator=source).to(dtype)[1:]",
    }.get(p.input, f"torch.randn(rows, {w}, generator=source).to(dtype)")
    if p.input in ("leaf", "computed"):
        yield f"{deep}leaf = x.requires_grad_()" + ("; x = torch.sin(leaf)" if p.input == "computed" else "")
    if {"mask", "labels"} & set(takes):
        yield f"{deep}source = torch.Generator().manual_seed(1000 + step * 10 + turn)"
        yield f"{deep}mask = (torch.rand(rows, {w}, generator=source) > 0.3).to(dtype)"
        yield f"{deep}labels = torch.randint(16, (rows,), generator=source)"
    call = f"output = run({', '.join(['x', *takes])})"
    saving = {"saved copy": "torch.clone, lambda one: one", "saved pickle": "packed, unpacked"}
    around = [f"torch.autograd.graph.saved_tensors_hooks({saving[one]})" for one in p.hooks if one in saving]
    around += ["torch.autocast('cpu', torch.bfloat16)"] if p.autocast else []
    yield f"{deep}with {', '.join(around)}: {call}" if around else deep + call
    if "output" in p.hooks:
        yield f"{deep}for one in tensors(output):"
        yield f"{deep}    if one.requires_grad: one.register_hook(lambda gradient: gradient * 2)"
    if p.change.startswith("output"):
        yield from _change(p, deep)
    yield f"{deep}losses.append(loss_of(output))"
    if p.change and not p.change.startswith("output"):
        yield from _change(p, " " * 16)
    if p.order == "sum":
        yield "                loss = sum(one * (1 + 0.5 * i) for i, one in enumerate(losses))"
        yield "                if loss.requires_grad: loss.backward()"
    else:
        losses = "losses" if p.order == "each" else "reversed(losses)"
        yield f"                for one in {losses}: one.backward()"
    yield "        seen += noted(f'step {step}', output, losses)"
    yield "        seen += noted(f'step {step}', *(one.grad for one in model.parameters()))"
    if p.input in ("leaf", "computed"):
        yield "        seen += noted('gradient of the input', leaf.grad)"
    yield "        if optimizer: optimizer.step()"
    if p.evaluates:
        if p.evaluates == "eval":
            yield "        model.eval()"
        guard = "inference_mode" if p.evaluates == "inference" else "no_grad"
        rest = "".join(f", {one}" for one in takes)
        yield f"        with torch.{guard}(): seen += noted('evaluation', run(x.detach(){rest}))"
        yield "        model.train()"
    yield "    states = [*model.parameters(), *model.buffers(), state, torch.get_rng_state()]"
    yield "    return seen + noted('end', *states)"
    if "saved pickle" in p.hooks:
        yield ""
        yield "def packed(one):"
        yield "    file = io.BytesIO(); torch.save(one, file); return file.getvalue()"
        yield "def unpacked(text): return torch.load(io.BytesIO(text), weights_only=False)"


def _change(program: Program, indent: str) -> Iterator[str]:
    what, how = program.change.split(" ", 1)
    tensors = {
        "buffers": "list(model.buffers())",
        "frozen": "[one for one in model.parameters() if not one.requires_grad]",
        "input": "[x]",
        "output": "tensors(output)[:1]",
    }.get(what, f"[{what}]")
    yield f"{indent}with torch.no_grad():"
    yield f"{indent}    for one in {tensors}:"
    writes = {"in place": "one.add_(0.5)", "data": "one.data.add_(0.5)", "set": "one.data = one.data + 0.5"}
    orders = {
        "in place": "one.copy_(one.flip(0))",
        "data": "one.data.copy_(one.flip(0))",
        "set": "one.data = one.flip(0)",
    }
    yield f"{indent}        if one.is_floating_point(): {writes[how]}"
    yield f"{indent}        elif one.dim(): {orders[how]}"


def _ways(way: Way, program: Program, budget: int | None) -> Iterator[str]:
    if way.kind == "online":
        options = "".join(f", {name}={value!r}" for name, value in way.options.items() if name != "budget")
        yield "whole = rk.memory_budget(None)"
        yield "attempt('no limit', lambda one: one, whole, eager)"
        yield f"peak = int(whole.statistics()['peak_bytes'] * {way.share})"
        yield f"attempt({way.name!r}, lambda one: one, rk.memory_budget(peak{options}), eager)"
        return
    dynamic = f", dynamic={program.dynamic!r}"
    plain = f"lambda one: torch.compile(one, backend='aot_eager'{dynamic})"
    yield f"aot = attempt('aot_eager', {plain}, None, eager)"
    options = {"budget": "60%" if budget is None else str(budget), **way.options}
    call = f"torch.compile(one, backend='rk', options={options!r}{dynamic})"
    yield f"attempt({way.name!r}, lambda one: {call}, None, aot or eager)"
