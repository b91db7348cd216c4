"""One of two processes that train together; run by test_distributed.py with rank and port."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    """Dynamo passes over the code of ``torch.nn``, and DDP calls the model from there: this is ours."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return nn.functional.gelu(self.second(nn.functional.gelu(self.first(x))))


class Model(nn.Module):
    """Three blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def model():
    torch.manual_seed(0)
    return Model()


def wrapped(kind, backend):
    inner = model()
    extra = {"options": {"budget": "90%", "on_infeasible": "best"}} if backend == "rk" else {}
    if kind == "ddp":
        run = nn.parallel.DistributedDataParallel(inner)
        return inner, torch.compile(run, backend=backend, **extra)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in inner.blocks:
        block.compile(backend=backend, **extra)
        fully_shard(block, mesh=mesh)
    return fully_shard(inner, mesh=mesh), inner


def train(kind, backend, rank):
    torch._dynamo.reset()
    inner, run = wrapped(kind, backend)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
    torch.manual_seed(10 + rank)
    for _ in range(3):
        optimizer.zero_grad()
        run(torch.randn(64, 64)).square().mean().backward()
        optimizer.step()
    return [getattr(one, "_local_tensor", one).detach().clone() for one in inner.parameters()]


def main():
    rank, port = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for kind in ("ddp", "fsdp2"):
        plain, planned = train(kind, "aot_eager", rank), train(kind, "rk", rank)
        assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True)), f"{kind}: different bits"
        print(f"{kind} equal")
    dist.destroy_process_group()


main()
