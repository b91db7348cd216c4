// RUN: rk-opt %s --rk-annotate-cost --rk-verify-stage | FileCheck %s

// The body's time is the sum of its calls; its workspace is what it needs beyond what it yields: the exponential stays
// inside (64 bytes) while the sum needs 32 more.
rk.node @measured {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) cost <100 ns, workspace 0 B> : (tensor<16xf32>) -> tensor<16xf32>
  %s = rk.aten "aten.sum.default"(%e, none) cost <50 ns, workspace 32 B> : (tensor<16xf32>) -> tensor<f32>
  rk.yield %s : tensor<f32>
}
// A call without a cost is given a roofline: 16 MiB each way at 20 bytes per nanosecond, and a launch.
rk.node @estimated {
^bb0(%x: tensor<4194304xf32>):
  %e = rk.aten "aten.exp.default"(%x) : (tensor<4194304xf32>) -> tensor<4194304xf32>
  rk.yield %e : tensor<4194304xf32>
}
func.func @step(%x: tensor<16xf32>, %y: tensor<4194304xf32>) -> (tensor<f32>, tensor<4194304xf32>)
    attributes {rk.stage = #rk.stage<simplified>} {
  %measured = rk.run @measured(%x) : (tensor<16xf32>) -> tensor<f32>
  %estimated = rk.run @estimated(%y) : (tensor<4194304xf32>) -> tensor<4194304xf32>
  return %measured, %estimated : tensor<f32>, tensor<4194304xf32>
}

// CHECK:       module attributes {rk.cost_model = "roofline"}
// CHECK:       rk.node @measured cost <150 ns, workspace 96 B>
// CHECK:       rk.node @estimated cost <1678722 ns, workspace 0 B>
// CHECK:       rk.stage = #rk.stage<costed>
