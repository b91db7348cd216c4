"""Calls generated kernels and ATen on the same tensors, and compares every element.

    python against_aten.py FOLDER     # with kernels.so and cases.json, as tests/against_aten.rs writes them

Floats are equal when their bits are, or when both are NaN (its sign and payload are not specified); a kernel with a stated
distance may be off by so many units in the last place, and a sum by its bound. Inputs hold zeros of both signs, infinities, NaN and subnormal numbers.
"""

import ctypes
import json
import pathlib
import sys

import torch

ELEMENTS = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i1": torch.bool}
INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-40, 1.0, 65504.0, -1e30]


def tensor(spec: dict, generator: torch.Generator) -> torch.Tensor:
    """A tensor of this layout, a third of it special values."""
    dtype, shape, strides = ELEMENTS[spec["element"]], spec["shape"], spec["strides"]
    span = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    if dtype == torch.bool:
        storage = torch.rand(span, generator=generator) < 0.5
    else:
        storage = torch.randn(span, generator=generator, dtype=torch.float64) * 2
        special = torch.tensor(SPECIAL, dtype=torch.float64)
        drawn = special[torch.randint(len(SPECIAL), (span,), generator=generator)]
        storage = torch.where(torch.rand(span, generator=generator) < 0.33, drawn, storage).to(dtype)
    return storage.as_strided(shape, strides)


def number(text: str) -> int | float:
    """A number as the IR spells it."""
    return float(text) if "." in text else int(text)


def expected(case: dict, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The first input, and behind it what ATen computes in every call."""
    results: list[torch.Tensor] = []
    for call in case["calls"]:
        name, overload = call["operator"].split(".")
        operator = getattr(getattr(torch.ops.aten, name), overload)
        values = [inputs[value["x"]] if "x" in value else results[value["r"]] for value in call["values"]]
        numbers = [number(text) for text in call["numbers"]]
        if "row" in call:
            results.append(operator(*values, call["row"], values[0].dtype if len(values) > 1 else False))
        elif "dims" in call:
            results.append(operator(values[0], call["dims"], call["keep"]))
        elif name in ("add", "sub") and overload == "Tensor":
            results.append(operator(*values, alpha=numbers[0]))
        else:
            results.append(operator(*values, *numbers))
    return inputs[:1] + results


def launched(case: dict, library: ctypes.CDLL, inputs: list[torch.Tensor]) -> torch.Tensor:
    """What the kernel computes, in two parts as two threads would."""
    result = torch.full(case["result"]["shape"], 1, dtype=ELEMENTS[case["result"]["element"]])
    tensors = [result if buffer == "result" else inputs[buffer["x"]] for buffer in case["buffers"]]
    buffers = (ctypes.c_void_p * len(tensors))(*[one.data_ptr() for one in tensors])
    kernel, rows = library[case["symbol"]], case["rows"]
    kernel.argtypes, kernel.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], None
    kernel(buffers, 0, rows // 2)
    kernel(buffers, rows // 2, rows)
    return result


def ordered(values: torch.Tensor) -> torch.Tensor:
    """Floats as integers in the same order, neighbours one apart, both zeros 0."""
    bits = values.contiguous().view(INTEGERS[values.dtype]).to(torch.int64)
    return torch.where(bits < 0, torch.iinfo(INTEGERS[values.dtype]).min - bits, bits)


def difference(ours: torch.Tensor, theirs: torch.Tensor, ulps: int) -> str:
    """Empty when equal, else the first element that is not."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    theirs = theirs.contiguous()
    if ours.dtype == torch.bool:
        wrong = ours.view(torch.uint8) != theirs.view(torch.uint8)
    else:
        integers = INTEGERS[ours.dtype]
        wrong = ours.view(integers) != theirs.view(integers)
        if ulps:
            wrong &= (ordered(ours) - ordered(theirs)).abs() > ulps
        wrong &= ~(ours.isnan() & theirs.isnan())
    if not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, first at {at}: {ours[at].item()!r}, ATen {theirs[at].item()!r}"


def sum_difference(ours: torch.Tensor, theirs: torch.Tensor, summed: torch.Tensor, call: dict) -> str:
    """As `difference`, for a sum or a mean of `summed`: the bound of `dialect/src/pointwise/sum.rs`, one rounding each included."""
    wide = torch.float64 if summed.dtype == torch.float64 else torch.float32
    terms = 1
    for dim in call["dims"]:
        terms *= summed.shape[dim]
    unit = torch.finfo(wide).eps / 2
    gamma = terms * unit / (1 - terms * unit)
    total = summed.double().abs().sum(call["dims"], call["keep"])
    mean = call["operator"].startswith("mean")
    bound = 2 * gamma * total / (max(terms, 1) if mean else 1)
    result = torch.finfo(theirs.dtype)
    bound = bound * (1 + 2 * unit) + result.eps * theirs.double().abs() + result.smallest_normal * result.eps
    near = (ours.double() - theirs.double()).abs() <= bound
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    # Where a partial sum may overflow, the order decides.
    may_overflow = total.isfinite() & (total >= torch.finfo(wide).max)
    wrong = ~(near | same | may_overflow)
    if not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, first at {at}: {ours[at].item()!r}, ATen {theirs[at].item()!r}"


def rows_difference(ours: torch.Tensor, theirs: torch.Tensor, values: list[torch.Tensor], call: dict) -> str:
    """As `difference`, for a call on rows: the sum of the bounds of `dialect/src/pointwise/rows.rs`, for us and for ATen."""
    wide = torch.float64 if ours.dtype == torch.float64 else torch.float32
    unit, terms = torch.finfo(wide).eps / 2, ours.shape[-1]
    name = call["operator"].split(".")[0]
    x = [value.double() for value in values]
    if name in ("_softmax", "_log_softmax"):
        most = x[0].amax(-1, keepdim=True) if terms else x[0]
        below = most - x[0]
        y = torch.exp(-below) / torch.exp(-below).sum(-1, keepdim=True)
        counted = below.clamp(max=104).amax(-1, keepdim=True) if terms else below
        if name == "_softmax":
            bound = 2 * (terms + counted + 16) * unit * y
        else:
            bound = 2 * ((terms + counted + 24) * unit + 2 * unit * below)
        may_overflow = torch.zeros_like(y, dtype=torch.bool)
    else:
        g, y = x
        weight = y if name == "_softmax_backward_data" else torch.exp(y)
        product = g * y if name == "_softmax_backward_data" else g
        total = product.abs().sum(-1, keepdim=True)
        bound = 2 * (terms + 16) * unit * (product.abs() + weight.abs() * total)
        # A product or a partial sum that overflows does so in any order, but perhaps not to the same infinity.
        limit = torch.finfo(wide).max
        may_overflow = (total.abs() >= limit) | (weight.abs() * total >= limit) | (weight.abs() >= limit)
    result = torch.finfo(ours.dtype)
    bound = bound + result.eps * theirs.double().abs() + result.smallest_normal * result.eps
    bound = bound + torch.finfo(wide).smallest_normal * 2  # of products and quotients below the smallest normal number
    near = (ours.double() - theirs.double()).abs() <= bound
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    wrong = ~(near | same | may_overflow)
    if ours.shape == theirs.shape and not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, first at {at}: {ours[at].item()!r}, ATen {theirs[at].item()!r}"


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    library = ctypes.CDLL(str(folder / "kernels.so"))
    cases = json.loads((folder / "cases.json").read_text())
    generator = torch.Generator().manual_seed(0)
    wrong = 0
    for case in cases:
        inputs = [tensor(spec, generator) for spec in case["inputs"]]
        results, ours, last = expected(case, inputs), launched(case, library, inputs), case["calls"][-1]
        if "row" in last:
            values = [inputs[value["x"]] if "x" in value else results[value["r"] + 1] for value in last["values"]]
            found = rows_difference(ours, results[-1], values, last)
        elif "dims" in last:
            found = sum_difference(ours, results[-1], results[-2], last)
        else:
            found = difference(ours, results[-1], case["ulps"])
        if found:
            wrong += 1
            calls = ", ".join(f"{call['operator']}{call['numbers'] or ''}" for call in case["calls"])
            print(f"{case['symbol']} {calls} on {case['result']['element']}{case['result']['shape']}: {found}")
    print(f"{len(cases)} kernels, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
