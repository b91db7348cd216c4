// RUN: rk-opt %s --rk-simplify --rk-verify-stage | FileCheck %s

// The transposed weight is a view: it goes into the body of the node that reads it. What the write overwrites is the
// node's first argument. The view that the step returns stays in front of the return.
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"},
                %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "fc.weight", rk.trainable})
    -> (tensor<32xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<dataflow>} {
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %h = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("fc")
  %r = rk.write(%h) {
  ^bb0(%b: tensor<4x8xf32>):
    %y = rk.aten "aten.relu_.default"(%b) writes(0) aliases(0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("act")
    rk.yield %b : tensor<4x8xf32>
  } : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("act")
  %e = rk.aten "aten.empty_strided.default"([4, 8], [8, 1], 6, none, none, none) : () -> tensor<4x8xf32>
  %m = rk.write(%e) {
  ^bb0(%b: tensor<4x8xf32>):
    %k = rk.aten "aten.bernoulli_.float"(%b, 0.9, none) writes(0) aliases(0) random : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("drop")
    rk.yield %b : tensor<4x8xf32>
  } : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("drop")
  %d = rk.aten "aten.mul.Tensor"(%r, %m) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("drop")
  %v = rk.aten "aten.view.default"(%d, [32]) aliases(0) : (tensor<4x8xf32>) -> tensor<32xf32>
  return %v : tensor<32xf32>
}

// CHECK:       rk.node @fc {
// CHECK-NEXT:  ^bb0(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>):
// CHECK-NEXT:    %[[T:.*]] = rk.aten "aten.t.default"(%[[W]]) aliases(0)
// CHECK-NEXT:    %[[H:.*]] = rk.aten "aten.mm.default"(%[[X]], %[[T]])
// CHECK-NEXT:    rk.yield %[[H]]
// CHECK:       rk.node @act overwrites(0) {
// An allocation that only the write reads moves into its node, which then overwrites nothing.
// CHECK:       rk.node @drop.bernoulli_ random {
// CHECK-NEXT:    rk.aten "aten.empty_strided.default"
// CHECK:       rk.node @drop.mul {

// CHECK-LABEL: func.func @step
// CHECK-SAME:    rk.stage = #rk.stage<simplified>
// CHECK-NEXT:    %[[FC:.*]] = rk.run @fc(
// CHECK-NEXT:    %[[ACT:.*]] = rk.run @act(%[[FC]])
// CHECK-NEXT:    %[[MASK:.*]] = rk.run @drop.bernoulli_()
// CHECK-NEXT:    %[[D:.*]] = rk.run @drop.mul(%[[ACT]], %[[MASK]])
// CHECK-NEXT:    %[[V:.*]] = rk.aten "aten.view.default"(%[[D]], [32]) aliases(0)
// CHECK-NEXT:    return %[[V]]
