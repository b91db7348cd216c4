// REQUIRES: rk-translate
// RUN: rk-translate %s --to json | FileCheck %s

// The module as data: nodes with costs and module paths, then the schedule.
// CHECK:      "name": "step",
// CHECK-NEXT: "stage": "scheduled",
// CHECK-NEXT: "device": "cpu",
// CHECK-NEXT: "alignment": 64,
// CHECK-NEXT: "budget": 16384,
// CHECK-NEXT: "peak": 12352,
// CHECK-NEXT: "nodes": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "name": "norm",
// CHECK-NEXT:     "path": "block.norm",
// CHECK-NEXT:     "operators": [
// CHECK-NEXT:       "aten.tanh.default"
// CHECK:          "inputs": [
// CHECK-NEXT:       "x"
// CHECK:          "output_bytes": [
// CHECK-NEXT:       4096
// CHECK:          "time_ns": 1000,
// CHECK-NEXT:     "workspace_bytes": 0,
// CHECK:      "schedule": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "run": "norm"
// CHECK-NEXT:   },
// CHECK-NEXT:   {
// CHECK-NEXT:     "run": "up"
// CHECK-NEXT:   },
// CHECK-NEXT:   {
// CHECK-NEXT:     "drop": "norm"
// CHECK-NEXT:   },
// CHECK-NEXT:   {
// CHECK-NEXT:     "run": "norm",
// CHECK-NEXT:     "again": true
// CHECK-NEXT:   }
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
