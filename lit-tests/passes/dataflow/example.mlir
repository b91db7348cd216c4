// RUN: rk-opt %s --rk-dataflow --rk-verify-stage | FileCheck %s

// relu_ overwrites what the convolution made; the sum reads the result of relu_ through the old name. Afterwards
// every version has its own name, the views of a new version are built again, and the mask needs no operand at all.
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"},
                %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "fc.weight", rk.trainable},
                %calls: tensor<i64> {rk.role = "buffer", rk.name = "calls"})
    -> (tensor<f32> {rk.role = "loss", rk.name = "loss"}) attributes {rk.stage = #rk.stage<raw>} {
  %one = rk.constant dense<1> : tensor<i64>
  %count = rk.aten "aten.add_.Tensor"(%calls, %one, 1) writes(0) aliases(0) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %h = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = rk.aten "aten.relu_.default"(%h) writes(0) aliases(0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = rk.aten "aten.empty_like.default"(%r, none, none, none, none, none) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = rk.aten "aten.bernoulli_.float"(%e, 0.9, none) writes(0) aliases(0) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = rk.aten "aten.mul.Tensor"(%h, %m) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = rk.aten "aten.slice.Tensor"(%d, 1, 0, 1, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x1xf32, #rk.strided<[8, 1]>>
  %f = rk.aten "aten.fill_.Scalar"(%v, 0.0) writes(0) aliases(0) : (tensor<4x1xf32, #rk.strided<[8, 1]>>) -> tensor<4x1xf32, #rk.strided<[8, 1]>>
  %alias = rk.aten "aten.detach.default"(%d) aliases(0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %dead = rk.aten "aten.neg.default"(%d) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.sum.default"(%alias, none) : (tensor<4x8xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32> {{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32> {{.*}}, %[[CALLS:[a-z0-9]+]]: tensor<i64>
// CHECK-SAME:    rk.stage = #rk.stage<dataflow>
// CHECK:         %[[ONE:.*]] = rk.constant
// A write on state of the model stays: it is a side effect of the step.
// CHECK:         rk.aten "aten.add_.Tensor"(%[[CALLS]], %[[ONE]], 1) writes(0)
// CHECK:         %[[MM:.*]] = rk.aten "aten.mm.default"
// CHECK:         %[[RELU:.*]] = rk.write(%[[MM]])
// CHECK-NEXT:    ^bb0(%[[B:.*]]: tensor<4x8xf32>):
// CHECK-NEXT:      rk.aten "aten.relu_.default"(%[[B]]) writes(0)
// CHECK-NEXT:      rk.yield %[[B]]
// CHECK:         %[[EMPTY:.*]] = rk.aten "aten.empty_strided.default"([4, 8], [8, 1], 6, none, none, none)
// CHECK:         %[[MASK:.*]] = rk.write(%[[EMPTY]])
// CHECK:         %[[MUL:.*]] = rk.aten "aten.mul.Tensor"(%[[RELU]], %[[MASK]])
// CHECK:         %[[FILLED:.*]] = rk.write(%[[MUL]])
// CHECK-NEXT:    ^bb0(%[[B2:.*]]: tensor<4x8xf32>):
// CHECK-NEXT:      %[[SLICE:.*]] = rk.aten "aten.slice.Tensor"(%[[B2]], 1, 0, 1, 1) aliases(0)
// CHECK-NEXT:      rk.aten "aten.fill_.Scalar"(%[[SLICE]]
// CHECK-NEXT:      rk.yield %[[B2]]
// CHECK-NOT:     detach
// CHECK-NOT:     aten.neg
// CHECK:         %[[SUM:.*]] = rk.aten "aten.sum.default"(%[[FILLED]], none)
// CHECK:         return %[[SUM]]
