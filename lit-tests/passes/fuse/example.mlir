// RUN: rk-opt %s --rk-fuse --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --rk-fuse --rk-annotate-cost | FileCheck %s --check-prefix=COST

// A residual block's end: the sum overwrites the branch, the ReLU overwrites the sum. One kernel does both, and overwrites the
// branch. `scale` has two readers: it is computed again in each, because `fc` lives until the last of them anyway.
rk.node @fc {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %h = rk.aten "aten.mm.default"(%x, %w) cost <900 ns, workspace 0 B> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @scale {
^bb0(%x: tensor<4x8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, 0.5) cost <1200 ns, workspace 0 B> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %h : tensor<4x8xf32>
}
rk.node @add overwrites(0) {
^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
  %s = rk.aten "aten.add_.Tensor"(%x, %y, 1) writes(0) aliases(0) cost <1100 ns, workspace 0 B> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %x : tensor<4x8xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<4x8xf32>):
  %r = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) cost <1050 ns, workspace 0 B> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %x : tensor<4x8xf32>
}
rk.node @tanh {
^bb0(%x: tensor<4x8xf32>):
  %t = rk.aten "aten.tanh.default"(%x) cost <1500 ns, workspace 0 B> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %t : tensor<4x8xf32>
}
rk.node @last {
^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>):
  %m = rk.aten "aten.mul.Tensor"(%x, %y) cost <1100 ns, workspace 0 B> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = rk.aten "aten.add.Tensor"(%m, %z, 1) cost <1100 ns, workspace 0 B> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  rk.yield %r : tensor<4x8xf32>
}
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {rk.stage = #rk.stage<simplified>} {
  %branch = rk.run @fc(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %scale = rk.run @scale(%branch) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %add = rk.run @add(%scale, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %relu = rk.run @relu(%add) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %tanh = rk.run @tanh(%relu) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %last = rk.run @last(%tanh, %scale, %branch) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %last : tensor<4x8xf32>
}

// CHECK-NOT:   rk.node @scale
// CHECK-NOT:   rk.node @add
// CHECK:       rk.node @relu attributes {rk.kernel} {
// CHECK-NEXT:  ^bb0(%[[B:.*]]: tensor<4x8xf32>, %[[X:.*]]: tensor<4x8xf32>):
// CHECK-NEXT:    %[[M:.*]] = rk.aten "aten.mul.Tensor"(%[[B]], 0.5)
// CHECK-NEXT:    rk.aten "aten.add_.Tensor"(%[[M]], %[[X]], 1) writes(0) aliases(0)
// CHECK-NEXT:    rk.aten "aten.relu_.default"(%[[M]]) writes(0) aliases(0)
// CHECK-NEXT:    rk.yield %[[M]]
// The hyperbolic tangent of a kernel is not ATen's bit for bit: it stays alone.
// CHECK:       rk.node @tanh {
// CHECK:       rk.node @last attributes {rk.kernel} {
// CHECK:         rk.aten "aten.mul.Tensor"(%{{.*}}, 0.5)

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[FC:.*]] = rk.run @fc(
// CHECK-NEXT:    %[[RELU:.*]] = rk.run @relu(%[[FC]], %{{.*}})
// CHECK-NEXT:    %[[TANH:.*]] = rk.run @tanh(%[[RELU]])
// CHECK-NEXT:    %[[LAST:.*]] = rk.run @last(%[[FC]], %[[TANH]])
// CHECK-NEXT:    return %[[LAST]]

// Three calls, less two launches and the traffic of 2 x 256 bytes at 20 bytes per nanosecond.
// COST:        rk.node @relu cost <1324 ns, workspace 0 B> attributes {rk.kernel}
