// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rematerialize=budget=384 --rk-verify-schedule -o %t.mlir
// RUN: rk-opt %t.mlir --rk-lower -o %t.lowered.mlir
// RUN: cat %t.mlir %t.lowered.mlir | FileCheck %s
// RUN: rk-translate %t.mlir --to json | FileCheck %s --check-prefix=JSON
// RUN: rk-translate %t.lowered.mlir --to step -o %t.rkx
// RUN: rk-run %t.rkx --check=all --steps 2 --repeat 0 --json | FileCheck %s --check-prefix=BITS

// Never more than 384 bytes are live, but no layout of the given order takes less than 448. The planner finds another order and a
// layout of it; that is the one that is executed. Packing does not find it at the first attempt, so it is written down.
// CHECK:       rk.arena = 384 : i64
// CHECK-SAME:  rk.offsets = array<i64: [[A:[0-9]+]], [[B:[0-9]+]], {{[0-9, ]+}}>
// CHECK:       rk.arena = 384 : i64
// CHECK-NOT:   rk.offsets
// CHECK:       rk.buffer arena[[[A]]] : tensor<48xf32>
// CHECK:       rk.buffer arena[[[B]]] : tensor<48xf32>

// JSON: "arena": 384
// JSON: "offsets": [
// JSON-NEXT: {{[0-9]+}},
// BITS-DAG: "arena_bytes":384
// BITS-DAG: "bit_equal":true
rk.node @a cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.cat.default"([%x, %x, %x], 0) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  rk.yield %y : tensor<48xf32>
}
rk.node @b cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<48xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<48xf32>) -> tensor<48xf32>
  rk.yield %y : tensor<48xf32>
}
rk.node @c cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  rk.yield %y : tensor<32xf32>
}
rk.node @d cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<48xf32>):
  %v = rk.aten "aten.slice.Tensor"(%x, 0, 8, 24, 1) aliases(0) : (tensor<48xf32>) -> tensor<16xf32>
  %y = rk.aten "aten.sin.default"(%v) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @e cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.cos.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @f cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32xf32>):
  %v = rk.aten "aten.slice.Tensor"(%x, 0, 8, 24, 1) aliases(0) : (tensor<32xf32>) -> tensor<16xf32>
  %y = rk.aten "aten.exp.default"(%v) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @g cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>, %y: tensor<16xf32>):
  %z = rk.aten "aten.cat.default"([%x, %y, %x], 0) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  rk.yield %z : tensor<48xf32>
}
rk.node @h cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>, %y: tensor<48xf32>):
  %v = rk.aten "aten.slice.Tensor"(%y, 0, 8, 24, 1) aliases(0) : (tensor<48xf32>) -> tensor<16xf32>
  %z = rk.aten "aten.cat.default"([%x, %v], 0) : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  rk.yield %z : tensor<32xf32>
}
func.func @step(%x: tensor<16xf32> {rk.role = "input", rk.name = "x"}) -> (tensor<32xf32> {rk.role = "output", rk.name = "0"})
    attributes {rk.stage = #rk.stage<costed>} {
  %a = rk.run @a(%x) : (tensor<16xf32>) -> tensor<48xf32>
  %b = rk.run @b(%a) : (tensor<48xf32>) -> tensor<48xf32>
  %c = rk.run @c(%x) : (tensor<16xf32>) -> tensor<32xf32>
  %d = rk.run @d(%b) : (tensor<48xf32>) -> tensor<16xf32>
  %e = rk.run @e(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %f = rk.run @f(%c) : (tensor<32xf32>) -> tensor<16xf32>
  %g = rk.run @g(%d, %f) : (tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  %h = rk.run @h(%e, %g) : (tensor<16xf32>, tensor<48xf32>) -> tensor<32xf32>
  return %h : tensor<32xf32>
}
