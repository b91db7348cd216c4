"""Trains a GPT-2 with transformers' Trainer within a memory budget.

    python examples/train_gpt2.py --budget 16MiB

`model.compile(backend="rk", ...)` is all that is added: it compiles the model in place, so the Trainer is used as
always. The text is made up, so that nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards from somewhere."""

    def __init__(self, length: int, count: int, vocabulary: int) -> None:
        self.length, self.count, self.vocabulary = length, count, vocabulary

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(self.length) + 7 * index) % self.vocabulary
        return {"input_ids": tokens, "labels": tokens}


def train(budget: str, steps: int, layers: int, width: int, length: int, batch: int) -> list[float]:
    """The losses that the Trainer logs."""
    torch.manual_seed(0)
    vocabulary = 50
    model = GPT2LMHeadModel(
        GPT2Config(n_layer=layers, n_embd=width, n_head=4, n_positions=length, vocab_size=vocabulary, use_cache=False)
    )
    model.compile(backend="rk", options={"budget": budget})
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=batch,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            disable_tqdm=True,
            dataloader_drop_last=True,
        )
        trainer = Trainer(model, arguments, train_dataset=Counting(length, steps * batch, vocabulary))
        trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="16MiB")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
