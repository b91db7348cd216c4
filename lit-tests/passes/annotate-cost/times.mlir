// RUN: split-file %s %t
// RUN: rk-opt %t/step.mlir --rk-annotate-cost=times=%t/good.times --rk-verify-stage | FileCheck %s
// RUN: not rk-opt %t/step.mlir --rk-annotate-cost=times=%t/bad.times 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not rk-opt %t/step.mlir --rk-annotate-cost=times=%t/none.times 2>&1 | FileCheck %s --check-prefix=NONE

// A node that was measured in whole steps takes that time, whatever its calls took alone; its workspace is still that of its calls.
// One that is not in the file keeps the sum of its calls.

// CHECK: module attributes {rk.cost_model = "measured"}
// CHECK: rk.node @measured cost <70 ns, workspace 96 B>
// CHECK: rk.node @other cost <150 ns, workspace 96 B>
// BAD: error: rk-annotate-cost: {{.*}}bad.times: line 2: no nanoseconds behind 'measured 70'
// NONE: error: rk-annotate-cost: cannot read {{.*}}none.times

//--- good.times
# rk times 1: nanoseconds per node on cpu, 2 threads
measured	70
gone	9
//--- bad.times
# rk times 1: nanoseconds per node on cpu, 2 threads
measured 70
//--- step.mlir
rk.node @measured {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) cost <100 ns, workspace 0 B> : (tensor<16xf32>) -> tensor<16xf32>
  %s = rk.aten "aten.sum.default"(%e, none) cost <50 ns, workspace 32 B> : (tensor<16xf32>) -> tensor<f32>
  rk.yield %s : tensor<f32>
}
rk.node @other {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) cost <100 ns, workspace 0 B> : (tensor<16xf32>) -> tensor<16xf32>
  %s = rk.aten "aten.sum.default"(%e, none) cost <50 ns, workspace 32 B> : (tensor<16xf32>) -> tensor<f32>
  rk.yield %s : tensor<f32>
}
func.func @step(%x: tensor<16xf32>) -> (tensor<f32>, tensor<f32>) attributes {rk.stage = #rk.stage<simplified>} {
  %m = rk.run @measured(%x) : (tensor<16xf32>) -> tensor<f32>
  %o = rk.run @other(%x) : (tensor<16xf32>) -> tensor<f32>
  return %m, %o : tensor<f32>, tensor<f32>
}
