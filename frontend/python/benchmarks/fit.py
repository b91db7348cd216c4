"""``python -m benchmarks.fit``: what ``rk.fit`` foresees of a training loop, and what the allocator counts.

Ten networks of torchvision, timm and transformers in small sizes, with random weights and AdamW. ``rk.fit``
answers first, from tensors without memory. Then the loop runs for some steps, and its peak is counted:
parameters, buffers, inputs, gradients, the state of the optimizer and all that is allocated meanwhile.
*Kept* is rk's plan that runs nothing again, which ``rk.fit`` calls the peak without rk; *eager* is PyTorch.
"""

from __future__ import annotations

import argparse
import copy
import gc
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import rk
from benchmarks.cells import gpt2, llama
from rk._graph import capture
from rk._plan import measure
from rk._run import group

SHARE = 0.8
STEPS = 2


def _images(size: int = 64, batch: int = 4) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def _torchvision(name: str) -> tuple[nn.Module, Any]:
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10), _images()


def _timm(name: str) -> tuple[nn.Module, Any]:
    import timm

    return timm.create_model(name, num_classes=10), _images(224, 1)


def _bert() -> tuple[nn.Module, Any]:
    from transformers import BertConfig, BertModel

    about = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256}
    return BertModel(BertConfig(vocab_size=1000, **about)), torch.randint(0, 1000, (4, 64))


def _opt() -> tuple[nn.Module, Any]:
    from transformers import OPTConfig, OPTModel

    about = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "ffn_dim": 256}
    config = OPTConfig(vocab_size=1000, word_embed_proj_dim=64, use_cache=False, **about)
    return OPTModel(config), torch.randint(0, 1000, (4, 64))


MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "resnet18": lambda: _torchvision("resnet18"),
    "mobilenet_v3_small": lambda: _torchvision("mobilenet_v3_small"),
    "regnet_x_400mf": lambda: _torchvision("regnet_x_400mf"),
    "shufflenet_v2_x0_5": lambda: _torchvision("shufflenet_v2_x0_5"),
    "vit_tiny_patch16_224": lambda: _timm("vit_tiny_patch16_224"),
    "convnext_atto": lambda: _timm("convnext_atto"),
    "gpt2": lambda: gpt2(layers=4, batch=4, length=64),
    "llama": lambda: llama(layers=4, batch=4, length=64),
    "bert": _bert,
    "opt": _opt,
}


def _standing(model: nn.Module, sample: Any) -> int:
    given = [one for one in torch.utils._pytree.tree_leaves(sample) if isinstance(one, torch.Tensor)]
    storages = (one.untyped_storage() for one in (*model.parameters(), *model.buffers(), *given))
    return sum({one._cdata: one.nbytes() for one in storages}.values())


def counted(model: nn.Module, sample: Any, **options: Any) -> int:
    """The peak of a training loop, with all that stands."""
    torch._dynamo.reset()
    group.GROUPS.clear()
    gc.collect()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(twin.parameters())
    run = torch.compile(twin, dynamic=False, backend="rk", options=options) if options else twin
    args, kwargs = capture.arguments(sample)
    with measure.addresses(torch.device("cpu")) as seen:
        for _ in range(STEPS):
            measure.scalar(run(*args, **kwargs)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return _standing(twin, sample) + seen.peak([])


def rows(names: Iterable[str]) -> Iterable[str]:
    """Lines of the table."""
    for name in names:
        torch.manual_seed(0)
        model, sample = MODELS[name]()
        model.train()
        start = time.perf_counter()
        foreseen = rk.fit(model, sample, torch.optim.AdamW, f"{100 * SHARE:.0f}%", "cpu")
        seconds = time.perf_counter() - start
        eager, kept = counted(model, sample), counted(model, sample, budget="100%", solver="keep-all")
        cells = [
            *(f"{one / 1e6:.2f}" for one in (foreseen.peak, kept, eager)),
            f"{100 * (foreseen.peak / kept - 1):+.1f} %",
            f"{100 * foreseen.smallest / foreseen.peak:.0f} %",
        ]
        if foreseen.fits:
            within = counted(model, sample, budget=foreseen.budget, scope="device")
            cells += [f"{foreseen.overhead:.1f} %", f"{100 * within / foreseen.budget:.1f} %"]
        else:
            cells += ["does not fit", ""]
        cells.append(f"{seconds:.1f}")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Reads the command line; Markdown goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit", description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    models = parser.parse_args().models
    warnings.simplefilter("ignore")
    about = (
        "foreseen, MB",
        "kept, MB",
        "eager, MB",
        "difference",
        "smallest",
        "at 80 %",
        "peak of 80 %",
        "s",
    )
    print(f"| model | {' | '.join(about)} |")
    print(f"|---|{'---:|' * len(about)}")
    for row in rows(models):
        print(row, flush=True)


if __name__ == "__main__":
    main()
