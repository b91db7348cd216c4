// RUN: rk-opt %s --rk-fuse --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --rk-fuse=exact=false --rk-verify-stage | FileCheck %s --check-prefix=LOOSE

// A sum takes in what it reads, over trailing dimensions or over leading ones, but only for those who do not insist on ATen's bits: its
// order is another. What reads a sum stays alone.
rk.node @product {
^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @rows {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten.sum.dim_IntList"(%x, [-1], true, none) : (tensor<4x8xf32>) -> tensor<4x1xf32>
  rk.yield %h : tensor<4x1xf32>
}
rk.node @scaled {
^bb0(%x: tensor<4x1xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, 0.5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  rk.yield %h : tensor<4x1xf32>
}
rk.node @difference {
^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
  %h = rk.aten "aten.sub.Tensor"(%x, %y, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @columns {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten.sum.dim_IntList"(%x, [0], false, none) : (tensor<4x8xf32>) -> tensor<8xf32>
  rk.yield %h : tensor<8xf32>
}
func.func @step(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<8xf32>)
    attributes {rk.stage = #rk.stage<simplified>} {
  %p = rk.run @product(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = rk.run @rows(%p) : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %h = rk.run @scaled(%s) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %d = rk.run @difference(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = rk.run @columns(%d) : (tensor<4x8xf32>) -> tensor<8xf32>
  return %h, %c : tensor<4x1xf32>, tensor<8xf32>
}

// CHECK-NOT: rk.kernel
// CHECK:     rk.run @product
// CHECK:     rk.run @rows

// LOOSE:      rk.node @rows attributes {rk.kernel} {
// LOOSE:        rk.aten "aten.mul.Tensor"
// LOOSE:        rk.aten "aten.sum.dim_IntList"
// LOOSE:      rk.node @columns attributes {rk.kernel} {
// LOOSE:        rk.aten "aten.sub.Tensor"
// LOOSE:        rk.aten "aten.sum.dim_IntList"
// LOOSE-NOT:  rk.kernel
// LOOSE-LABEL: func.func @step
// LOOSE-NEXT:   rk.run @rows(
// LOOSE-NEXT:   rk.run @scaled
// LOOSE-NEXT:   rk.run @columns
