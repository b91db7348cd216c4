// RUN: rk-opt %s --rk-verify-stage | FileCheck %s

// A step that keeps the contract of its stage passes unchanged.
// CHECK-LABEL: func.func @step
// CHECK:         %[[V:.*]] = rk.aten "aten.neg.default"
// CHECK:         return %[[V]]
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  %y = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
