// RUN: not rk-opt %s --rk-lower 2>&1 | FileCheck %s

// Never more than 384 bytes are live, and no layout of them takes less than 448; all in steps of 64 bytes were tried. A
// budget between the two is refused, not exceeded.
// CHECK: error: S7: no layout of 'step' within its budget of 384 B was found: its values need 384 B, the smallest arena found takes 448 B (448 bytes)
rk.node @a cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<16xf32>) -> tensor<48xf32>
  rk.yield %0 : tensor<48xf32>
}
rk.node @b cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<48xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<48xf32>) -> tensor<48xf32>
  rk.yield %0 : tensor<48xf32>
}
rk.node @c cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<16xf32>) -> tensor<32xf32>
  rk.yield %0 : tensor<32xf32>
}
rk.node @d cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<48xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<48xf32>) -> tensor<16xf32>
  rk.yield %0 : tensor<16xf32>
}
rk.node @e cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %0 : tensor<16xf32>
}
rk.node @f cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32xf32>):
  %0 = rk.aten "aten.cat.default"(%x) : (tensor<32xf32>) -> tensor<16xf32>
  rk.yield %0 : tensor<16xf32>
}
rk.node @g cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>, %y: tensor<16xf32>):
  %0 = rk.aten "aten.cat.default"(%x, %y) : (tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  rk.yield %0 : tensor<48xf32>
}
rk.node @h cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>, %y: tensor<48xf32>):
  %0 = rk.aten "aten.cat.default"(%x, %y) : (tensor<16xf32>, tensor<48xf32>) -> tensor<32xf32>
  rk.yield %0 : tensor<32xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 384 : i64} {
  %a = rk.run @a(%x) : (tensor<16xf32>) -> tensor<48xf32>
  %b = rk.run @b(%a) : (tensor<48xf32>) -> tensor<48xf32>
  rk.drop %a : tensor<48xf32>
  %c = rk.run @c(%x) : (tensor<16xf32>) -> tensor<32xf32>
  %d = rk.run @d(%b) : (tensor<48xf32>) -> tensor<16xf32>
  rk.drop %b : tensor<48xf32>
  %e = rk.run @e(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %f = rk.run @f(%c) : (tensor<32xf32>) -> tensor<16xf32>
  rk.drop %c : tensor<32xf32>
  %g = rk.run @g(%d, %f) : (tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  rk.drop %d : tensor<16xf32>
  rk.drop %f : tensor<16xf32>
  %h = rk.run @h(%e, %g) : (tensor<16xf32>, tensor<48xf32>) -> tensor<32xf32>
  rk.drop %e : tensor<16xf32>
  rk.drop %g : tensor<48xf32>
  return %h : tensor<32xf32>
}
