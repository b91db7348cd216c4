// REQUIRES: rk-translate
// RUN: rk-translate %s --to html --points 3 -o %t.html
// RUN: FileCheck %s < %t.html
// RUN: sed 's/<scheduled>/<costed>/; /rk.drop/d; /run again/d; s/%%norm_0/%%norm/' %s > %t.mlir
// RUN: not rk-translate %t.mlir --to html 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not rk-translate %s --to html --points 1001 2>&1 | FileCheck %s --check-prefix=POINTS

// The plan of a step as a page: what the judge says of it, and what the step carries.
// CHECK:     <title>rk: plan of step</title>
// CHECK:     within a budget of 16.00 KiB, for 33.33 % more time
// CHECK:     As planned: peak 12.07 KiB
// CHECK:     <td>norm</td><td>block.norm</td><td>activations</td>
// CHECK:     The smallest budget with a plan is
// CHECK:     <td>norm</td><td>2</td><td>1.00 us</td><td>4.00 KiB</td><td>aten.tanh.default</td>
// CHECK:     "categories":
// STAGE: the step has no plan: stage costed comes before scheduled (--rematerialize)
// POINTS: 1001 is not in 0..=1000
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
