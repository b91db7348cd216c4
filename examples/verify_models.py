"""Trains each network with and without rk, and shows whether budgets and bits are kept.

    python examples/verify_models.py                     # all networks of models.py and a Llama, some minutes each
    python examples/verify_models.py gpt2_4 unet --steps 3

Budgets are shares of the peak that eager PyTorch has on the same machine. Both sides run five steps of SGD from one seed:
`aot_eager` (the same kernels without a plan) and rk with codegen fx. Compared are losses, gradients, parameters and
buffers, byte by byte; the peak is what the allocator handed out at most. A budget may be refused; then the error names what
would do. The exit code is 1 when a bit differs, a peak is above its budget, or a peak grows as the budget falls.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings

import models
import torch
from rk._plan import measure
from rk._codegen import bits
from torch import nn

import rk

SHARES = (80, 60, 40)


class WithLoss(nn.Module):
    """A network and its loss in one graph: what a loss outside allocates is not the plan's."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([one.float().square().mean() for one in models.tensors(self.model(*inputs))]).sum()


def llama() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A decoder of transformers' Llama kind."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
        use_cache=False,
    )
    return models.Logits(LlamaForCausalLM(config), "logits"), (torch.randint(0, 1000, (4, 128)),)


def train(run, model: nn.Module, inputs: tuple, steps: int) -> dict[str, torch.Tensor]:
    """Losses, last gradients, parameters and buffers after some steps of SGD."""
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    state = {}
    torch.manual_seed(1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = run(*inputs)
        loss.backward()
        optimizer.step()
        state[f"loss {step}"] = loss.detach().clone()
    for name, one in model.named_parameters():
        state[name] = one.detach().clone()
        if one.grad is not None:
            state[f"gradient of {name}"] = one.grad.clone()
    return state | {name: one.clone() for name, one in model.named_buffers()}


def trained(model: nn.Module, inputs: tuple, steps: int, **compiler) -> tuple[dict[str, torch.Tensor], int]:
    """What training gives, and the peak of one more step."""
    torch._dynamo.reset()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, dynamic=False, **compiler) if compiler else twin
    state = train(run, twin, inputs, steps)
    return state, measure.peak(lambda: run(*inputs).backward(), twin)


def differing(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    """The names of what is not the same to the last bit."""
    return [name for name in one if not bits.equal(one[name], other[name])]


def verified(name: str, steps: int) -> bool:
    """Prints a row per budget; whether everything is as promised."""
    model, inputs = llama() if name == "llama" else models.build(name)
    model = WithLoss(model).train()
    expected, eager = trained(model, inputs, steps)
    try:
        expected, _ = trained(model, inputs, steps, backend="aot_eager")
    except RuntimeError as error:
        print(f"| {name} | | not run: aot_eager itself fails: {str(error).splitlines()[0]} | |", flush=True)
        return True
    good, last = True, None
    for share in SHARES:
        budget, start = eager * share // 100, time.perf_counter()
        try:
            found, peak = trained(model, inputs, steps, backend="rk", options={"budget": budget})
        except torch._dynamo.exc.BackendCompilerFailed as failed:
            if not isinstance(failed.inner_exception, rk.BudgetError):
                raise
            error = failed.inner_exception
            smallest = "none found" if error.smallest_bytes is None else f"{100 * error.smallest_bytes / eager:.0f} %"
            proven = f"{100 * error.lower_bound_bytes / eager:.0f} %"
            print(f"| {name} | {share} % | refused: smallest found {smallest}, nothing below {proven}, held by `{error.holder}` | |")
            continue
        different = differing(expected, found)
        if different:
            # Is PyTorch itself reproducible here?
            again, _ = trained(model, inputs, steps, backend="aot_eager")
            noise = differing(expected, again)
            told = f"{len(different)} differ, {different[0]}; without rk, twice: {len(noise)}"
            different = [one for one in different if one not in noise]
        else:
            told = "equal"
        kept, falls = peak <= budget, last is None or peak <= last
        good, last = good and kept and falls and not different, peak
        seconds = time.perf_counter() - start
        peaks = f"{100 * peak / eager:.1f} %" + ("" if kept else " ABOVE") + ("" if falls else " GROWS")
        print(f"| {name} | {share} % | {peaks} | {told} |", flush=True)
        print(f"{name} {share}: {seconds:.0f} s", file=sys.stderr)
    return good


def main() -> None:
    """Reads the command line."""
    everything = [*models.MODELS, "llama"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=everything, metavar="NAME", help=", ".join(everything))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", action="store_true", help="without the head of the table")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in everything]
    if unknown:
        parser.error(f"no network {unknown[0]!r}; there are {', '.join(everything)}")
    warnings.simplefilter("ignore")
    torch._dynamo.config.allow_rnn = True
    if not given.rows:
        print("| network | budget | measured peak | bits |\n|---|---:|---:|---|")
    good = [verified(name, given.steps) for name in given.names]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
