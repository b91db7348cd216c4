// RUN: rk-opt %s --rk-fuse --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --rk-fuse=exact=false --rk-verify-stage | FileCheck %s --check-prefix=LOOSE

// What must stay alone: a value that the step returns, a product whose operands would be held longer than it, a reader of
// what the step changes, another number of elements. And what need not be exact.
rk.node @make {
^bb0(%x: tensor<8xf32>):
  %h = rk.aten "aten.cumsum.default"(%x, 0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %h : tensor<8xf32>
}
rk.node @make_1 {
^bb0(%x: tensor<8xf32>):
  %h = rk.aten "aten.cumsum.default"(%x, 0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %h : tensor<8xf32>
}
rk.node @pair {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %h : tensor<8xf32>
}
rk.node @read {
^bb0(%x: tensor<8xf32>, %m: tensor<8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, %m) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.yield %h : tensor<8xf32>
}
rk.node @count once {
^bb0(%m: tensor<8xf32>):
  %h = rk.aten "aten.add_.Scalar"(%m, 1, 1) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield
}
rk.node @wide {
^bb0(%x: tensor<8xf32>, %y: tensor<2x8xf32>):
  %h = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  rk.yield %h : tensor<2x8xf32>
}
rk.node @exp {
^bb0(%x: tensor<2x8xf32>):
  %h = rk.aten "aten.exp.default"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  rk.yield %h : tensor<2x8xf32>
}
rk.node @end {
^bb0(%x: tensor<2x8xf32>, %y: tensor<8xf32>):
  %h = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  rk.yield %h : tensor<2x8xf32>
}
func.func @step(%x: tensor<8xf32>, %m: tensor<8xf32>, %z: tensor<2x8xf32>) -> tensor<2x8xf32>
    attributes {rk.stage = #rk.stage<simplified>} {
  %a = rk.run @make(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.run @make_1(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %p = rk.run @pair(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r = rk.run @read(%p, %m) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  rk.run @count(%m) : (tensor<8xf32>) -> ()
  %w = rk.run @wide(%r, %z) : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %e = rk.run @exp(%w) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %n = rk.run @end(%e, %p) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %n : tensor<2x8xf32>
}

// CHECK-NOT: rk.kernel
// CHECK:     rk.run @pair
// CHECK:     rk.run @read
// CHECK:     rk.run @wide
// CHECK:     rk.run @exp
// CHECK:     rk.run @end

// LOOSE:       rk.node @end attributes {rk.kernel}
// LOOSE:         aten.add.Tensor
// LOOSE:         aten.exp
// LOOSE:     rk.run @pair
// LOOSE:     rk.run @read
// LOOSE-NOT: rk.run @wide
// LOOSE-NOT: rk.run @exp
// LOOSE:     rk.run @end
