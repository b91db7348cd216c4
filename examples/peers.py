"""PyTorch's own ways to save memory on a network of models.py, on a GPU: time and peak of a training step, one JSON line for each.

    .venv/bin/python examples/peers.py gpt2_medium_4 --ways eager,checkpoint,compile,0.5

`eager`; `checkpoint`: torch.utils.checkpoint around each block; `compile`: torch.compile with its defaults; a number:
torch.compile with that activation_memory_budget. The peak is what the allocator had handed out at most above what was there before a
step that begins without gradients, so gradients are in it. A step is forward, the sum of the outputs, and backward; its time
is a median.
"""

import argparse
import json
import statistics
import sys
import time

import models
import torch

BLOCKS = {"Bottleneck", "BasicBlock", "EncoderBlock", "GPT2Block", "LlamaDecoderLayer"}


def checkpoint_blocks(network):
    """Wraps the forward of every block of the network."""
    from torch.utils.checkpoint import checkpoint

    blocks = [module for module in network.modules() if type(module).__name__ in BLOCKS]
    for block in blocks:
        inner = block.forward
        block.forward = lambda *args, _inner=inner, **more: checkpoint(_inner, *args, use_reentrant=False, **more)
    if not blocks:
        sys.exit("peers.py: error: this network has no blocks that are known")


def measure(name, way, repeats):
    """Bytes and seconds of a step, and the seconds until the first one was done."""
    network, inputs = models.build(name)
    network, inputs = network.cuda(), [value.cuda() for value in inputs]
    if way == "checkpoint":
        checkpoint_blocks(network)
    elif way != "eager":
        torch._dynamo.reset()
        torch._functorch.config.activation_memory_budget = 1.0 if way == "compile" else float(way)
    run = network if way in ("eager", "checkpoint") else torch.compile(network)

    def step():
        network.zero_grad(set_to_none=True)
        run(*inputs).sum().backward()
        torch.cuda.synchronize()

    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    seconds = []
    for _ in range(repeats + 2):
        network.zero_grad(set_to_none=True)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() - before
    gradients = sum(p.numel() * p.element_size() for p in network.parameters())
    return {
        "model": name,
        "way": way,
        "peak_bytes": peak,
        "gradient_bytes": gradients,
        "step_seconds": statistics.median(seconds[2:]),
        "first_step_seconds": first,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[*models.MODELS, *models.LARGE], metavar="NAME", help="a network of models.py")
    parser.add_argument("--ways", default="eager,checkpoint,compile,0.5", help="separated by commas (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=10, help="timed steps (default: %(default)s)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("peers.py: error: PyTorch finds no GPU here")
    for way in options.ways.split(","):
        try:
            print(json.dumps(measure(options.name, way, options.repeat)), flush=True)
        except torch.OutOfMemoryError as error:
            print(json.dumps({"model": options.name, "way": way, "error": str(error).splitlines()[0]}), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
