"""Times every generated kernel of a step file against the ATen calls that it replaces.

    .venv/bin/python examples/time_kernels.py STEP.rkx

One thread, CPU time, the best of several rounds: numbers that hold on a busy machine. Tensors are made from the layouts in the
file; what a kernel computes is checked elsewhere (`rk-run --check`, `codegen/kernels/tests`).
"""

import argparse
import binascii
import ctypes
import json
import pathlib
import tempfile
import time
from collections.abc import Callable

import torch

ELEMENTS = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64}
ELEMENTS |= {"i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "i1": torch.bool}


def tensor(spec: dict) -> torch.Tensor:
    """A tensor of this layout with elements between 0.5 and 1.5, or ones."""
    dtype = ELEMENTS[spec["dtype"]]
    content = torch.rand(spec["shape"]) + 0.5 if dtype.is_floating_point else torch.ones(spec["shape"])
    if "strides" not in spec:
        return content.to(dtype)
    return torch.empty_strided(spec["shape"], spec["strides"], dtype=dtype).copy_(content)


def argument(value: object, values: dict[int, torch.Tensor]) -> object:
    """An argument of a call as the step file spells it."""
    if isinstance(value, dict):
        return values[value["v"]] if "v" in value else float(value["f"])
    return [argument(item, values) for item in value] if isinstance(value, list) else value


def prepared(call: dict) -> tuple[Callable, list[object], dict[str, object], list[int]]:
    """The operator of a call, its positional arguments, those that the schema wants by name, and its results."""
    _, name, overload = call["op"].split(".")
    operator = getattr(getattr(torch.ops.aten, name), overload)
    schema = operator._schema.arguments[: len(call["args"])]
    positional = [value for value, formal in zip(call["args"], schema) if not formal.kwarg_only]
    named = {formal.name: value for value, formal in zip(call["args"], schema) if formal.kwarg_only}
    return operator, positional, named, call["results"]


def best(work: Callable[[], None]) -> float:
    """Microseconds of CPU time."""
    work()
    rounds = []
    for _ in range(7):
        start = time.process_time()
        for _ in range(20):
            work()
        rounds.append((time.process_time() - start) / 20 * 1e6)
    return min(rounds)


def times(node: dict, library: ctypes.CDLL) -> tuple[float, float]:
    """Microseconds of the kernel, and of the calls."""
    kernel = node["kernel"]
    inputs, outputs = [tensor(spec) for spec in kernel["inputs"]], [tensor(spec) for spec in kernel["outputs"]]
    launch = kernel["aside"]
    given = [inputs[buffer["input"]] if "input" in buffer else outputs[buffer["output"]] for buffer in launch["buffers"]]
    addresses = (ctypes.c_void_p * len(given))(*[one.data_ptr() for one in given])
    function = library[launch["symbol"]]
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], None
    calls = [prepared(call) for call in node["ops"]]

    def aten() -> None:
        values = dict(enumerate(inputs))
        for operator, positional, named, results in calls:
            named = {name: argument(value, values) for name, value in named.items()}
            values[results[0]] = operator(*argument(positional, values), **named)

    with torch.no_grad():
        return best(lambda: function(addresses, 0, kernel["rows"])), best(aten)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times every generated kernel of a step file against its ATen calls.")
    parser.add_argument("step", type=pathlib.Path, metavar="STEP.rkx", help="written by rk-translate from fused nodes")
    step = json.loads(parser.parse_args().step.read_text())["step"]
    if "library" not in step:
        parser.error("the step has no kernels; fuse its nodes first (--rk-fuse)")
    torch.set_num_threads(1)
    nodes: dict[str, list[dict]] = {}
    for node in step["nodes"]:
        if isinstance(node["ops"], int):
            # Equal calls stand in the file once; the number is that of the node that has them.
            node["ops"] = step["nodes"][node["ops"]]["ops"]
        if "kernel" in node:
            nodes.setdefault(node["kernel"]["aside"]["symbol"], []).append(node)
    print("| calls | output | nodes | ATen us | kernel us |\n|---|---|---:|---:|---:|")
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(binascii.unhexlify(step["library"]["elf"]))
        file.flush()
        library = ctypes.CDLL(file.name)
        for same in nodes.values():
            ours, theirs = times(same[0], library)
            names = [call["op"].split(".")[1] for call in same[0]["ops"]]
            calls = ", ".join(name for name in names if name not in ("view", "expand", "t", "transpose"))
            output = same[0]["kernel"]["outputs"][0]
            shape = "x".join(str(size) for size in output["shape"])
            print(f"| {calls} | {shape} {output['dtype']} | {len(same)} | {theirs:.1f} | {ours:.1f} |")


if __name__ == "__main__":
    main()
