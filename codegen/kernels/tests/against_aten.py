"""Calls generated kernels and ATen on the same tensors, and compares every element.

    python against_aten.py FOLDER cpu     # with kernels.so and cases.json, as tests/against_aten.rs writes them
    python against_aten.py FOLDER ptx     # with the results of other kernels, for the same tensors, in N.ptx for case N

The first leaves the tensors behind: the operands of case N in N.inputs, what the kernel made of them in N.cpu. The second passes over cases without results.

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
PLAIN = [0.0, -0.0, 1e-40, -1e-40, 1.0, 65504.0, -300.0]
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-40, 1.0, 65504.0, -1e30]


def tensor(spec: dict, plain: bool, generator: torch.Generator) -> torch.Tensor:
    """A tensor of this layout, a third of it special values."""
    dtype, shape, strides = ELEMENTS[spec["element"]], spec["shape"], spec["strides"]
    span = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    if dtype == torch.bool:
        storage = torch.rand(span, generator=generator) < 0.5
    else:
        storage = torch.randn(span, generator=generator, dtype=torch.float64) * 2
        special = torch.tensor(PLAIN if plain else SPECIAL, dtype=torch.float64)
        drawn = special[torch.randint(len(special), (span,), generator=generator)]
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
        if "norm" in call:
            given = iter(values)
            first = [next(given) for _ in range(4 if "backward" in name else 1)]
            weight = next(given) if call["weight"] else None
            bias = next(given) if call["bias"] else None
            if "backward" in name:
                mask = [True, False, False]
                results.append(operator(*first[:2], call["norm"], *first[2:], weight, bias, mask)[0])
            else:
                results += operator(first[0], call["norm"], weight, bias, 1e-5)
        elif "row" in call:
            results.append(operator(*values, call["row"], values[0].dtype if len(values) > 1 else False))
        elif "dims" in call:
            results.append(operator(values[0], call["dims"], call["keep"]))
        elif "to" in call:
            results.append(operator(values[0], dtype=ELEMENTS[call["to"]]))
        elif name in ("add", "sub") and overload == "Tensor":
            results.append(operator(*values, alpha=numbers[0]))
        else:
            results.append(operator(*values, *numbers))
    return inputs[:1] + results


def launched(case: dict, library: ctypes.CDLL, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """What the kernel computes, in two parts as two threads would."""
    results = [torch.full(spec["shape"], 1, dtype=ELEMENTS[spec["element"]]) for spec in case["results"]]
    tensors = [inputs[buffer["x"]] if "x" in buffer else results[buffer["result"]] for buffer in case["buffers"]]
    buffers = (ctypes.c_void_p * len(tensors))(*[one.data_ptr() for one in tensors])
    kernel, rows = library[case["symbol"]], case["rows"]
    kernel.argtypes, kernel.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], None
    kernel(buffers, 0, rows // 2)
    kernel(buffers, rows // 2, rows)
    return results


def save(path: pathlib.Path, tensors: list[torch.Tensor]) -> None:
    """Their storages, one behind the other."""
    path.write_bytes(b"".join(ctypes.string_at(one.data_ptr(), one.untyped_storage().nbytes()) for one in tensors))


def load(path: pathlib.Path, specs: list[dict]) -> list[torch.Tensor]:
    """Dense tensors, one behind the other."""
    data, at, tensors = bytearray(path.read_bytes()), 0, []
    for spec in specs:
        one = torch.empty(spec["shape"], dtype=ELEMENTS[spec["element"]])
        size = one.numel() * one.element_size()
        if size:
            ctypes.memmove(one.data_ptr(), bytes(data[at : at + size]), size)
        tensors.append(one)
        at += size
    return tensors


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
    """As `difference`, for a sum or a mean of `summed`: the bound of `dialect/src/pointwise/sum.rs`, one rounding each included.

    A maximum is the same number, or both are a NaN.
    """
    if call["operator"].startswith("amax"):
        theirs = torch.where(ours == theirs, ours, theirs)
        return difference(ours, theirs, 0)
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
    dim = call["row"]
    unit, terms = torch.finfo(wide).eps / 2, ours.shape[dim]
    name = call["operator"].split(".")[0]
    x = [value.double() for value in values]
    if name in ("_softmax", "_log_softmax"):
        most = x[0].amax(dim, keepdim=True) if terms else x[0]
        below = most - x[0]
        total = torch.exp(-below).sum(dim, keepdim=True)
        y = torch.exp(-below) / total
        counted = below.clamp(max=104).amax(dim, keepdim=True) if terms else below
        if name == "_softmax":
            bound = 2 * (terms + counted + 16) * unit * y
        else:
            bound = 2 * ((terms + counted + 24) * unit + 2 * unit * below)
            if ours.dtype != wide and dim in (-1, ours.dim() - 1):
                # ATen rounds the sum and its logarithm; their errors are of first order.
                bound = bound + 1.01 * torch.finfo(ours.dtype).eps / 2 * (1 + total.log())
        may_overflow = torch.zeros_like(y, dtype=torch.bool)
    else:
        g, y = x
        weight = y if name == "_softmax_backward_data" else torch.exp(y)
        product = g * y if name == "_softmax_backward_data" else g
        total = product.abs().sum(dim, keepdim=True)
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


def norm_difference(ours: list, theirs: list, values: list[torch.Tensor], call: dict) -> str:
    """As `difference`, for a layer norm or its gradient: the bounds of `dialect/src/pointwise/norm.rs`, for us and for ATen.

    In f32 our results are also compared with those in f64, by our bound alone.
    """
    f64 = ours[0].dtype == torch.float64
    # In what steps are made, and, per result, to what it is rounded.
    info = torch.finfo(torch.float64 if f64 else torch.float32)
    unit, dims = info.eps / 2, list(range(-len(call["norm"]), 0))
    n = 1
    for size in call["norm"]:
        n *= size
    given = [value.double() for value in values]
    limit = info.max

    def total(value: torch.Tensor) -> torch.Tensor:
        return value.sum(dims, True)

    if "backward" in call["operator"]:
        g, x, m, r = given[:4]
        h = g * given[4] if call["weight"] else g
        z = (x - m) * r
        exact = [r * (h - total(h) / n - z * (total(h * z) / n))]
        first = (n + 12) * unit * r.abs() * (h.abs() + total(h.abs()) / n + z.abs() * total((h * z).abs()) / n)
        cross = (m.abs() * total(h.abs()) + total((h * x).abs())) * r.abs() ** 3 / n
        second = r.abs() * h.abs() + (x.abs() + m.abs()) * cross + r.abs() * total(h.abs()) / n
        bounds = [(first, (n + 16) * unit * second)]
        # Whatever is as large as this somewhere may have overflowed on the way.
        size = second + cross + total((h * z).abs()) + z.abs() * total((h * z).abs()) + (r.abs() + 1) ** 3 + h.abs()
        size = size + total((h * x).abs()) + m.abs() * total(h.abs())
        wild = [~(total(size) < limit / 16)]
        bad = (total((~(h.isfinite() & x.isfinite())).double()) > 0) | ~m.isfinite() | ~r.isfinite()
        tiny = info.smallest_normal * (1 + r.abs()) ** 3 * (1 + x.abs() + m.abs() + z.abs())
    else:
        x = given[0]
        weight = given[1].abs() if call["weight"] else torch.ones_like(x)
        bias = given[-1].abs() if call["bias"] else torch.zeros_like(x)
        m = total(x) / n
        v = total((x - m) ** 2) / n
        r, size = 1 / torch.sqrt(v + 1e-5), total(x * x) / n
        z = (x - m) * r
        e = (n + 8) * unit * total(x.abs()) / n
        p = (n + 10) * unit / 2 + e * e * r * r / 2
        theirs_p = p + 4 * n * unit * r * r * (size * v).sqrt()
        rest = 2 * unit * (weight * z.abs() + bias)
        first = weight * (r * e + z.abs() * (p + 4 * unit)) + rest
        second = weight * (r * e + 3 * unit * r * (x.abs() + m.abs()) + z.abs() * (theirs_p + 4 * unit)) + rest
        bounds = [(first, second), (e, e), (p * r, theirs_p * r)]
        signed = given[1] if call["weight"] else 1.0
        exact = [z * signed + (given[-1] if call["bias"] else 0.0), m, r]
        bad = total((~x.isfinite()).double()) > 0
        # The bounds are of first order: not where ATen's variance is off by a tenth, or a square overflows.
        over = (4 * n * (size + m * m) >= limit) | (theirs_p > 0.1)
        wild = [over | ~(weight * (z.abs() + 1) < limit / 16), over, over]
        tiny = info.smallest_normal * (1 + weight) * (1 + r)
    for index, (mine, other) in enumerate(zip(ours, theirs)):
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return f"{mine.dtype}{list(mine.shape)} instead of {other.dtype}{list(other.shape)}"
        result = torch.finfo(mine.dtype)
        size = torch.maximum(mine.double().abs(), other.double().abs())
        last = result.eps * size + (tiny if index == 0 else info.smallest_normal)
        last = last + result.smallest_normal * result.eps
        # Within its bound one may be too large for its type, and the other not.
        too_large = exact[index].abs() + bounds[index][0] + bounds[index][1] >= result.max / 2
        near = (mine.double() - other.double()).abs() <= bounds[index][0] + bounds[index][1] + last
        right = (mine.double() - exact[index]).abs() <= bounds[index][0] + last
        same = (mine == other) | (mine.isnan() & other.isnan())
        # Of a row with a NaN or an infinity nothing is finite: a NaN, but for means and gradients, where infinities are not told apart.
        lost = ~mine.isfinite() & ~other.isfinite()
        if len(ours) > 1 and index != 1:
            lost = mine.isnan() & other.isnan()
        accepted = torch.where(bad, lost, (near & (right | f64)) | same | wild[index] | too_large)
        wrong = ~accepted.expand(mine.shape)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            return (
                f"result {index}: {int(wrong.sum())} of {wrong.numel()} differ, first at {at}: "
                f"{mine[at].item()!r}, ATen {other[at].item()!r}, exactly {exact[index].expand(mine.shape)[at].item()!r}"
            )
    return ""


def main() -> None:
    folder, made_by = pathlib.Path(sys.argv[1]), sys.argv[2]
    library = ctypes.CDLL(str(folder / "kernels.so"))
    cases = json.loads((folder / "cases.json").read_text())
    generator = torch.Generator().manual_seed(0)
    wrong = compared = 0
    for number, case in enumerate(cases):
        inputs = [tensor(spec, case["plain"], generator) for spec in case["inputs"]]
        results, last = expected(case, inputs), case["calls"][-1]
        if made_by == "cpu":
            made = launched(case, library, inputs)
            save(folder / f"{number}.inputs", inputs)
            save(folder / f"{number}.cpu", made)
        elif (folder / f"{number}.ptx").exists():
            made = load(folder / f"{number}.ptx", case["results"])
        else:
            continue
        compared += 1
        ours = made[0]
        if "norm" in last:
            values = [inputs[value["x"]] if "x" in value else results[value["r"] + 1] for value in last["values"]]
            found = norm_difference(made, results[-len(made) :], values, last)
        elif "row" in last:
            values = [inputs[value["x"]] if "x" in value else results[value["r"] + 1] for value in last["values"]]
            found = rows_difference(ours, results[-1], values, last)
        elif "dims" in last:
            found = sum_difference(ours, results[-1], results[-2], last)
        elif "to" in last:
            found = sum_difference(ours, results[-1], results[-3], case["calls"][-2])
        else:
            found = difference(ours, results[-1], case["ulps"])
        if found:
            wrong += 1
            calls = ", ".join(f"{call['operator']}{call['numbers'] or ''}" for call in case["calls"])
            print(f"{case['symbol']} {calls} on {case['results'][0]['element']}{case['results'][0]['shape']}: {found}")
    print(f"{compared} kernels, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
