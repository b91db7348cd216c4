// REQUIRES: rk-translate
// RUN: rk-translate %s --to step -o %t.rkx
// RUN: FileCheck %s < %t.rkx
// RUN: not rk-translate %s --to step -o %t.missing/x.rkx 2>&1 | FileCheck %s --check-prefix=UNWRITABLE
// RUN: not rk-translate %s --to step --step other 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not rk-translate %S/Inputs/raw.mlir --to step 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not rk-translate %S/Inputs/broken.mlir --to step 2>&1 | FileCheck %s --check-prefix=BROKEN

// CHECK: "format": "rk-step"
// CHECK: "budget_bytes": 16384
// CHECK: "name":"x","role":"input"

// UNWRITABLE: error: {{.*}}x.rkx: cannot write: No such file or directory
// OTHER: no such step (a function with rk.stage); found: step
// STAGE: raw.mlir:1:1: error: a step at stage raw cannot be executed; run --rematerialize first
// BROKEN: broken.mlir:2:8: error:
module attributes {rk.alignment = 64 : i64, rk.device = "cpu"} {
  rk.node @norm cost <1000 ns, workspace 0 B> {
  ^bb0(%x: tensor<32x32xf32>):
    %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("block.norm")
    rk.yield %y : tensor<32x32xf32>
  }
  rk.node @up cost <2000 ns, workspace 64 B> {
  ^bb0(%x: tensor<32x32xf32>):
    %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32> loc("block.up")
    rk.yield %y : tensor<64x32xf32>
  }
  func.func @step(%x: tensor<32x32xf32> {rk.role = "input", rk.name = "x"})
      -> (tensor<64x32xf32> {rk.role = "output", rk.name = "0"}, tensor<32x32xf32> {rk.role = "output", rk.name = "1"})
      attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 16384 : i64, rk.peak = 12352 : i64} {
    %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
    rk.drop %norm : tensor<32x32xf32>
    %norm_0 = rk.run again @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %up, %norm_0 : tensor<64x32xf32>, tensor<32x32xf32>
  }
}
