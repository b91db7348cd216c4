// RUN: rk-opt %s --rk-fuse --rk-verify-stage | FileCheck %s --check-prefix=EXACT
// RUN: rk-opt %s --rk-fuse=exact=false --rk-verify-stage | FileCheck %s

// The scaling and the mask in front of a softmax are computed by its kernel, row by row, and the scores are never stored. A second
// softmax, one over another dimension, and one that two nodes read, stay alone.

// EXACT-NOT: rk.kernel
// CHECK-NOT:  rk.node @scale
// CHECK:      rk.node @softmax attributes {rk.kernel} {
// CHECK:        rk.aten "aten.mul.Tensor"
// CHECK:        rk.aten "aten._softmax.default"
// CHECK:      rk.node @again {
// CHECK:      rk.node @columns {
// CHECK:      rk.node @left {
// CHECK:      rk.node @right {
// CHECK-LABEL: func.func @step
rk.node @scale {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, 0.5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @softmax {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten._softmax.default"(%x, -1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @again {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten._log_softmax.default"(%x, 1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @columns {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten._softmax.default"(%x, 0, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @left {
^bb0(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, %w) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @right {
^bb0(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>):
  %h = rk.aten "aten.sub.Tensor"(%x, %w, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
func.func @step(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    attributes {rk.stage = #rk.stage<simplified>} {
  %s = rk.run @scale(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.run @softmax(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = rk.run @again(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = rk.run @columns(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @left(%z, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = rk.run @right(%z, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l, %r, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
