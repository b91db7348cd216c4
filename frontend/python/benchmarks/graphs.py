"""``python -m benchmarks.graphs FOLDER``: training steps of large networks as graphs for ``rk-plan``.

Networks are traced in bfloat16 with tensors that have sizes and no memory, so that nothing is run and no GPU
is needed. Times are those of :mod:`rk._plan.roofline` with ceilings like an H100's; workspaces are not known
and count as none. The files are too large for the repository.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rk import _rk
from rk._graph import capture, fakes
from rk._plan import roofline
from rk._plan.costs import Cost
from rk._plan.options import Options
from rk._plan.schedule import Problem

H100 = roofline.Ceilings(bandwidth=3.35e12, throughput=4e14, launch=2e-6)
"""Bytes a second of its memory, and what large matrix products in bfloat16 reach of the peak."""


class Estimated(Problem):
    """A step whose costs are all from the model."""

    def _costs(self) -> dict[str, Cost]:
        device = torch.device("cuda")
        calls = {call.signature: call for call in self._spelled.calls if call.node is not None}
        return {name: Cost(roofline.nanoseconds(call.node, device), 0) for name, call in calls.items()}


class Loss(nn.Module):
    """A network and the mean of its squared outputs."""

    def __init__(self, network: nn.Module) -> None:
        """The network is wrapped as it is."""
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The loss."""
        out = self.network(*inputs)
        out = getattr(out, "logits", out)
        return out.float().square().mean()


class UNet(nn.Module):
    """Five levels of two convolutions, with skips (Ronneberger et al., 2015, with padding and batch norm)."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> None:
        """One width per level."""
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(_twice(before, width) for before, width in pairs)
        turned = list(reversed(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(w, w // 2, 2, stride=2) for w in turned[:-1])
        self.merge = nn.ModuleList(_twice(w, w // 2) for w in turned[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Two classes per pixel."""
        skips = []
        for level, block in enumerate(self.down):
            image = block(nn.functional.max_pool2d(image, 2) if level else image)
            skips.append(image)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            image = merge(torch.cat([skips.pop(), up(image)], 1))
        return self.head(image)


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for source in (inputs, outputs):
        layers += [nn.Conv2d(source, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


def _images(batch: int, side: int) -> torch.Tensor:
    return torch.empty(batch, 3, side, side, device="meta", dtype=torch.bfloat16)


def _words(batch: int, length: int) -> torch.Tensor:
    return torch.zeros(batch, length, dtype=torch.long, device="meta")


def _gpt2_medium() -> tuple[nn.Module, torch.Tensor]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False)
    return GPT2LMHeadModel(config), _words(8, 1024)


def _llama_1b() -> tuple[nn.Module, torch.Tensor]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config), _words(4, 2048)


def _torchvision(name: str, batch: int) -> tuple[nn.Module, torch.Tensor]:
    import torchvision

    return getattr(torchvision.models, name)(weights=None), _images(batch, 224)


NETWORKS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "gpt2_medium": _gpt2_medium,
    "llama_1b": _llama_1b,
    "vit_b_16": lambda: _torchvision("vit_b_16", 128),
    "resnet50": lambda: _torchvision("resnet50", 128),
    "unet": lambda: (UNet(), _images(16, 256)),
}


def graph_of(name: str) -> str:
    """The training step of a network as JSON."""
    with torch.device("meta"):
        network, sample = NETWORKS[name]()
    model: Any = Loss(network.to(torch.bfloat16).train())
    mode, twin, fake = fakes.twin_of(model, sample, torch.device("cpu"))
    with mode:
        step = capture.step_of(twin, fake)
    options = Options.parse({"budget": "100%", "time_limit": "1s", "scope": "device"})
    problem = Estimated(step, options, torch.device("cuda"))
    answer = problem.explained("100%")
    return planners(name, json.loads(_rk.translate(answer["stages"]["costed"], "json")))


def planners(name: str, step: dict[str, Any]) -> str:
    """The nodes of a step as ``rk-plan`` reads them. Gradients of parameters leave the step where they are
    made, and do not count behind that.
    """
    made: dict[str, list[int]] = {}
    nodes = []
    for place, node in enumerate(step["nodes"]):
        outputs = [{"bytes": size} for size in node["output_bytes"]]
        for output in range(len(outputs)):
            made[f"{node['name']}.{output}" if output else node["name"]] = [place, output]
        about = {
            "id": place,
            "kind": "bwd" if node["backward"] else "fwd",
            "name": node["name"],
            "time": node["time_ns"] / 1000,
            "deps": [made[value] for value in node["inputs"] if value in made],
            "outputs": outputs,
        }
        nodes.append(about | ({"once": True} if node["once"] else {}))
    source = "python -m benchmarks.graphs"
    return json.dumps({"name": name, "source": source, "time_unit": "us", "nodes": nodes})


def main() -> None:
    """Writes one file per network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--models", default=",".join(NETWORKS), help="names, separated by commas")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    roofline.GPU = H100
    for name in options.models.split(","):
        text = graph_of(name)
        (options.folder / f"{name}.json").write_text(text)
        print(f"{name}: {len(text)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
