// REQUIRES: rk-translate
// RUN: rk-translate %s --to dot | FileCheck %s

// CHECK:      digraph "step" {
// CHECK:        "norm" [label="norm\n1 us\n2 runs" fillcolor=lightblue peripheries=2];
// CHECK:        "up" [label="up\n2 us" fillcolor=lightblue];
// CHECK-NEXT:   "norm" -> "up" [tooltip="norm: 4096 B"];
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
