"""A fixed part of the campaign over PyTorch's own samples: operators whose structure is
special. ``python -m campaigns.opinfo`` runs all of them.
"""

from __future__ import annotations

import json

import pytest

from campaigns.opinfo import compiled, families
from campaigns.opinfo.table import Summary

GROUPS = {
    "random": "bernoulli uniform nn.functional.dropout nn.functional.rrelu normal multinomial",
    "several results": "sort linalg.svd split unbind aminmax linalg.qr frexp var_mean",
    "views": "as_strided unfold diagonal movedim real.c64 imag.c64 conj.c64 view_as_complex expand T",
    "writes": "index_put scatter_reduce.amax slice_scatter masked_fill cumsum.inplace",
    "statistics": "native_batch_norm nn.functional.batch_norm nn.functional.instance_norm native_layer_norm",
    "numbers": "argmax.i64 bitwise_and.i64 eq histc complex nextafter bucketize",
    "kernels": "nn.functional.conv2d.bf16 nn.functional.scaled_dot_product_attention fft.fft linalg.solve_ex",
}
REFUSED = {
    "nonzero": "aten.nonzero.default has the size (u0",
    "unique": "aten._unique2.default has the size (u0",
}


def _subject(name):
    pytest.importorskip("expecttest", reason="PyTorch's databases need it")
    name, inplace, _ = name.partition(".inplace")
    name, _, dtype = name.rpartition(".") if name.endswith((".c64", ".i64", ".bf16")) else (name, "", "f32")
    wanted = ("op", name, "inplace" if inplace else "function", dtype)
    found = [one for one in families.items(("op",), (dtype,)) if wanted == _about(one)]
    assert len(found) == 1, (name, found)
    return next(families.subjects(found[0], 1))[1]


def _about(item):
    return item.family, item.name, item.variant, item.dtype


@pytest.mark.parametrize("group", GROUPS)
def test_bits_are_equal_and_all_runs_again(group):
    subjects = [_subject(name) for name in GROUPS[group].split()]
    found = compiled.outcomes(subjects, list(compiled.WAYS), lambda _: None)
    assert {one.kind for one in found.values()} == {"equal"}, found
    assert all(one.kept for one in found.values())
    # A view is no run, and the state that a second draw starts from is larger than these samples.
    assert found["fx"].again or group in ("views", "random")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    found = compiled.outcomes([_subject(name)], ["fx"], lambda _: None)
    assert found["fx"].kind == "refused" and REFUSED[name] in found["fx"].reason


def test_another_result_is_seen(monkeypatch):
    """The comparison itself: a plan that computes something else is called wrong."""
    monkeypatch.setattr(
        compiled.Observed, "__call__", lambda self, *args: [2 * one for one in self._run(*args)]
    )
    found = compiled.outcomes([_subject("sin")], ["fx"], lambda _: None)
    assert found["fx"].kind == "wrong" and "differ" in found["fx"].reason


def test_index_fill_is_planned_or_refused_by_name():
    """Newer versions of torch find its gradient with an operator whose size depends on data."""
    found = compiled.outcomes([_subject("index_fill")], ["fx"], lambda _: None)["fx"]
    assert found.kind == "equal" or "aten._unique.default (backward) has the size (u" in found.reason


def test_records_are_summed_up(tmp_path):
    ways = {"aot_eager": {"kind": "equal"}, "fx": {"kind": "equal", "again": ["aten.sin.default"]}}
    refused = {"kind": "refused", "reason": "CompileError: shape (u7,)"}
    lines = [
        {"item": "op:sin:function:f32", "sample": 0, "ways": ways},
        {"item": "op:unique:function:f32", "sample": 3, "ways": {**ways, "fx": refused}},
        {"done": "op:unique:function:f32"},
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    summary = Summary(path)
    assert not summary.faults() and "| 2 | 1 | 1 | 0 | 0 | 0 | 0 |" in summary.markdown()
    assert "shape (un,) | `unique` |" in summary.markdown()
    lines.append({"item": "op:sin:function:f32", "sample": 0, "ways": {"rk": {"kind": "crash"}}})
    path.write_text("\n".join(map(json.dumps, lines)))
    assert [one[:3] for one in Summary(path).faults()] == [("op:sin:function:f32", 0, "rk")]
