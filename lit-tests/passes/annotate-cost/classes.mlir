// RUN: rk-opt %s --rk-annotate-cost --remarks-filter=annotate-cost 2>&1 | FileCheck %s

// Two nodes of one class get the mean of their times and the larger workspace; the third keeps its own.
rk.node @one attributes {rk.node_class = 0 : i64} {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) cost <100 ns, workspace 0 B> : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %e : tensor<16xf32>
}
rk.node @two attributes {rk.node_class = 0 : i64} {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) cost <140 ns, workspace 64 B> : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %e : tensor<16xf32>
}
rk.node @other attributes {rk.node_class = 1 : i64} {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.tanh.default"(%x) cost <160 ns, workspace 0 B> : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %e : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<blocks>} {
  %one = rk.run @one(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %two = rk.run @two(%one) : (tensor<16xf32>) -> tensor<16xf32>
  %other = rk.run @other(%two) : (tensor<16xf32>) -> tensor<16xf32>
  return %other : tensor<16xf32>
}

// CHECK:      one cost for each of 2 classes of nodes, 10.0% of the time
// CHECK:      rk.node @one
// CHECK-SAME: cost <120 ns, workspace 64 B>
// CHECK:      rk.node @two
// CHECK-SAME: cost <120 ns, workspace 64 B>
// CHECK:      rk.node @other
// CHECK-SAME: cost <160 ns, workspace 0 B>
