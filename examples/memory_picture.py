"""Draws the memory of a GPT-2's training step, before and after rk planned it; docs/memory.svg is made by this.

    python examples/memory_picture.py --budget 50% docs/memory.svg

Nothing is trained: `rk.plan` traces the model, measures each distinct operator once, and plans. The curves are those of the
judge, so they are what the allocator will be asked for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import rk

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 860, 300, 64, 14, 46


def gpt2(layers: int, width: int, length: int, batch: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A GPT-2 with random weights, and one input."""
    torch.manual_seed(0)
    vocabulary = 4096
    sizes = {"n_layer": layers, "n_embd": width, "n_head": width // 64, "n_positions": length}
    config = GPT2Config(**sizes, vocab_size=vocabulary, bos_token_id=0, eos_token_id=0)
    tokens = torch.randint(vocabulary, (batch, length))
    return GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens, "use_cache": False}


def picture(plan: Any, title: str) -> str:
    """Both curves of what rk.plan returns over time, and the budget, as one SVG."""
    curves = [[(plan.nodes[node].seconds, size) for node, size in runs] for runs in (plan.before, plan.after)]
    length = max(sum(seconds for seconds, _ in curve) for curve in curves)
    most = max(size for curve in curves for _, size in curve)

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * seconds / length

    def y(size: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - size / most)

    def area(curve: list[tuple[float, int]]) -> str:
        now, points = 0.0, [f"{x(0):.1f},{y(0):.1f}"]
        for seconds, size in curve:
            points += [f"{x(now):.1f},{y(size):.1f}", f"{x(now + seconds):.1f},{y(size):.1f}"]
            now += seconds
        return " ".join(dict.fromkeys([*points, f"{x(now):.1f},{y(0):.1f}"]))

    def mark(size: int, colour: str, label: str) -> str:
        at = y(size)
        return (
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{at:.1f}" y2="{at:.1f}" stroke="{colour}" stroke-dasharray="5 4"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="{colour}">{size / 2**20:.0f} MiB</text>'
            f'<text x="{WIDTH - 14}" y="{at - 5:.1f}" text-anchor="end" fill="{colour}">{label}</text>'
        )

    grey, blue = map(area, curves)
    caption = f"{title}: {plan.overhead:.1f} % more time, proven to need at least {plan.bound:.1f} %"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<polygon points="{grey}" fill="#d5d5d5" stroke="#888" stroke-width="0.6"/>'
        f'<polygon points="{blue}" fill="#1668b8" fill-opacity="0.55" stroke="#0d4f91" stroke-width="0.8"/>'
        + mark(plan.base_peak, "#666", "peak without rk")
        + mark(plan.budget, "#b00020", "budget")
        + f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(0):.1f}" y2="{y(0):.1f}" stroke="#222"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 26}">forward</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 26}" text-anchor="end">backward</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{caption}</text></svg>\n'
    )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the SVG")
    parser.add_argument("--budget", default="50%", help="as rk.plan takes it")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    model, sample = gpt2(args.layers, args.width, args.length, args.batch)
    plan = rk.plan(model, sample, args.budget)
    print(plan)
    title = f"GPT-2, {args.layers} layers of width {args.width}, {args.batch} x {args.length} tokens"
    args.out.write_text(picture(plan, title))


if __name__ == "__main__":
    main()
