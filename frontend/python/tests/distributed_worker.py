"""One of several processes that train a decoder together: ``distributed_worker.py RANK WORLD STORE CELL...``.

A cell is ``wrapping/compiled`` and switches behind slashes, such as ``ddp/layers/static``. Each is trained
with ``aot_eager`` and with rk, and one line of JSON per cell says what is the same and what was measured.
With the switch ``device`` the budget has that scope, and the peak is that of the whole loop.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import logging
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

import rk
from rk._plan import measure
from rk._run import group, observe

STEPS = 4
VOCABULARY, LAYERS, WIDTH, TOKENS = 128, 6, 96, 48
MARK = 13
"""Bytes that nothing else has."""


def decoder() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "intermediate_size": 256, "num_hidden_layers": LAYERS}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, use_cache=False, **sizes, **heads))


class Stage(nn.Module):
    """A half of the decoder."""

    def __init__(self, model: nn.Module, rank: int) -> None:
        super().__init__()
        self.rotary = model.model.rotary_emb
        half = LAYERS // 2
        self.layers = model.model.layers[half * rank : half * (rank + 1)]
        self.embedding = model.model.embed_tokens if rank == 0 else None
        self.head = nn.Sequential(model.model.norm, model.lm_head) if rank == 1 else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        positions = self.rotary(x, torch.arange(x.shape[1])[None])
        for layer in self.layers:
            x = layer(x, position_embeddings=positions)
        return x if self.head is None else self.head(x)


def loss_of(logits, ids):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Pipeline(nn.Module):
    """A stage that sends its results on; several micro-batches are under way."""

    def __init__(self, stage: Stage, kind: str) -> None:
        super().__init__()
        rank, rows = dist.get_rank(), 2
        ids = torch.zeros(rows, TOKENS, dtype=torch.int64)
        # From torch 2.15 on, the second stage sends a gradient back only if what it is shown asks for one.
        hidden = torch.zeros(rows, TOKENS, WIDTH, requires_grad=True)
        logits = torch.zeros(rows, TOKENS, VOCABULARY)
        given, made = (ids, hidden) if rank == 0 else (hidden, logits)
        piped = pipelining.PipelineStage(stage, rank, 2, torch.device("cpu"), given, made)
        schedule = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}[kind]
        self.stage, self.run = stage, schedule(piped, n_microbatches=4, loss_fn=loss_of)

    def forward(self, ids):
        losses = []
        if dist.get_rank() == 0:
            self.run.step(ids)
        else:
            self.run.step(target=ids, losses=losses)
        return torch.stack([one.detach() for one in losses]) if losses else torch.zeros(4)


class Cell:
    """One way to train."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wrapping, self.compiled, *switches = name.split("/")
        self.switches = set(switches)

    def built(self, **backend) -> tuple[nn.Module, nn.Module]:
        """What is called, and whose parameters are trained."""
        model = decoder()
        if self.compiled == "layers":
            for layer in model.model.layers:
                layer.compile(**backend)
        run = getattr(self, f"_{self.wrapping}")(model)
        return (torch.compile(run, **backend) if self.compiled == "whole" else run), model

    def _ddp(self, model):
        static = "static" in self.switches
        views = "copies" not in self.switches
        return nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=views, static_graph=static, bucket_cap_mb=1
        )

    def _fsdp(self, model):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        about = {"mesh": mesh, "reshard_after_forward": "keep" not in self.switches}
        if "bf16" in self.switches:
            about["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, **about)
        return fully_shard(model, **about)

    def _tp(self, model):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        ways = {one: ColwiseParallel() for one in ("q_proj", "k_proj", "v_proj")}
        ways = {f"self_attn.{name}": way for name, way in {**ways, "o_proj": RowwiseParallel()}.items()}
        ways |= {"mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel()}
        for layer in model.model.layers:
            parallelize_module(layer, mesh, {**ways, "mlp.down_proj": RowwiseParallel()})
        return model

    def _gpipe(self, model):
        return Pipeline(Stage(model, dist.get_rank()), "gpipe")

    def _1f1b(self, model):
        return Pipeline(Stage(model, dist.get_rank()), "1f1b")

    @property
    def is_whole(self) -> bool:
        """Whether all that is allocated counts."""
        return "device" in self.switches

    @property
    def is_piped(self) -> bool:
        return self.wrapping in ("gpipe", "1f1b")

    def step(self, run, batches) -> torch.Tensor:
        """The loss of one step."""
        if self.is_piped:
            return run(torch.cat(batches))
        total = torch.zeros(())
        for place, ids in enumerate(batches):
            last = place == len(batches) - 1
            with contextlib.ExitStack() as context:
                if not last and self.wrapping == "ddp":
                    inner = getattr(run, "_orig_mod", run)
                    context.enter_context(inner.no_sync())
                if self.wrapping == "fsdp" and hasattr(run, "set_requires_gradient_sync"):
                    run.set_requires_gradient_sync(last)
                loss = run(input_ids=ids, labels=ids).loss
                loss.backward()
            total += loss.detach()
        return total

    @property
    def late(self) -> int:
        """Bytes that gloo's threads may let go of late, in some steps: of two collectives."""
        if self.wrapping == "fsdp":
            return 2 * sum(one.nbytes for one in decoder().model.layers[0].parameters())
        # What is reduced is a batch of hidden states.
        return 2 * torch.empty(2, TOKENS, WIDTH).nbytes if self.wrapping == "tp" else 0

    def train(self, **backend):
        """Peaks of the steps, and all bits that they leave."""
        torch._dynamo.reset()
        group.GROUPS.clear()
        COUNTED.begin()
        run, model = self.built(**backend)
        model = run.stage if self.is_piped else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        alike = self.is_piped or self.wrapping == "tp"
        draws = torch.Generator().manual_seed(100 + (0 if alike else dist.get_rank()))
        peaks, bits = [], []
        COUNTED.most()
        for _ in range(STEPS):
            count = 4 if self.is_piped else 3 if "no_sync" in self.switches else 1
            batches = [torch.randint(VOCABULARY, (2, TOKENS), generator=draws) for _ in range(count)]
            step = functools.partial(self.step, run, batches)
            most, loss = (0, step()) if self.is_whole else peak(step, model)
            peaks.append(most)
            bits += [digest(loss), *(digest(local(one.grad)) for one in model.parameters())]
            optimizer.step()
            optimizer.zero_grad()
            if self.is_whole:
                peaks[-1] = COUNTED.most()
        bits += [digest(local(one)) for one in model.parameters()]
        return peaks, bits, run


def digest(tensor) -> str:
    """What two tensors have in common if their bits are equal."""
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def local(tensor):
    return getattr(tensor, "_local_tensor", tensor).detach()


def peak(step, model):
    """The most bytes that a step has at once of what comes and goes in it. What is there when it is over
    stands (gradients, DDP's buckets), and what is the gradient of a parameter before DDP has copied it is
    none of it either. With what the step returns.
    """
    gradients, handles = [], []

    def accumulated(parameter):
        gradients.append(parameter.grad.untyped_storage().data_ptr())
        torch.empty(MARK, dtype=torch.uint8)

    for one in model.parameters():
        if not hasattr(one, "_local_tensor"):
            handles.append(one.register_post_accumulate_grad_hook(accumulated))
    with measure.addresses(torch.device("cpu")) as seen:
        result = step()
    for handle in handles:
        handle.remove()
    there, left_out, waiting = {}, set(), iter(gradients)
    for place, (address, size) in enumerate(seen.changes):
        if size == MARK and (gradient := next(waiting, None)) in there:
            left_out.add(there[gradient])
        if size > 0:
            there[address] = place
        else:
            there.pop(address, None)
    left_out |= set(there.values())
    live = most = 0
    here = {}
    for place, (address, size) in enumerate(seen.changes):
        if size > 0 and place not in left_out:
            here[address] = size
            live += size
        elif size < 0:
            live -= here.pop(address, 0)
        most = max(most, live)
    return most, result


class Counted:
    """All that this process has allocated from the beginning, and the most: by rk's counter, which the meters
    of rk read as well. PyTorch's profiler does not see what other threads let go of.
    """

    def __init__(self) -> None:
        self._peak = self._base = 0
        counts = observe.counter()
        self._read, counts.memory = counts.memory, self.read
        counts.count_memory()

    def read(self, leaving: int = 0) -> tuple[int, int]:
        level, peak = self._read(leaving)
        self._peak = max(self._peak, peak)
        return level, peak

    def begin(self) -> None:
        """What is there counts nothing."""
        gc.collect()
        self._base, _ = self.read()

    def most(self) -> int:
        """Since the last time that it was asked."""
        self.read()
        most, self._peak = self._peak - self._base, 0
        return most


COUNTED = Counted()


def plans() -> str:
    """A digest of what runs: every plan of every class, and every choice."""
    told = []
    for shared in group.GROUPS.values():
        for owner in sorted(shared.classes, key=lambda one: one.number):
            told.append([owner.name, owner.base.schedule.runs])
        for known in shared.known:
            told.append([[one.name, one.schedule.runs] for one in known.variants])
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


class Said(logging.Handler):
    """What rk logs."""

    def __init__(self):
        super().__init__()
        self.words = ""

    def emit(self, record):
        self.words += record.getMessage() + "\n"


SAID = Said()


def judged(name: str) -> dict:
    cell = Cell(name)
    plain, bits, keep = cell.train(backend="aot_eager")
    del keep
    shared = torch.tensor([max(plain)])
    if not cell.is_piped:
        dist.all_reduce(shared, dist.ReduceOp.MAX)
    # Neither what stands nor what stays gathered becomes less.
    share = 0.85 if cell.switches & {"keep", "bf16", "device"} else 0.6
    share = 0.95 if cell.is_whole and cell.switches & {"copies", "bf16"} else share
    share = 0.95 if cell.is_whole and cell.wrapping == "tp" else share
    budget = int(share * shared.item())
    SAID.words = ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scope = "device" if cell.is_whole else "activations"
        peaks, same, keep = cell.train(backend="rk", options={"budget": budget, "scope": scope})
    about = {
        "cell": name,
        "equal": bits == same,
        "budget": budget,
        "plain": plain,
        "peaks": peaks,
        "plans": plans(),
        "late": cell.late,
        "own": "a choice of its own" in SAID.words,
        "graphs": [str(one) for one in rk.plans()],
        "warnings": [str(one.message) for one in told if "rk" in str(one.message)],
    }
    del keep
    return about


def main() -> None:
    rank, world, store, *cells = sys.argv[1:]
    torch.set_num_threads(1)
    log = logging.getLogger("rk")
    log.addHandler(SAID)
    log.setLevel(logging.INFO)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world))
    for name in cells:
        print(json.dumps(judged(name)), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
