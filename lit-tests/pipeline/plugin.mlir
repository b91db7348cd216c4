// REQUIRES: plugin
// RUN: mlir-opt --load-pass-plugin=%plugin --load-dialect-plugin=%plugin %s \
// RUN:     --pass-pipeline='builtin.module(rk-dataflow,rk-verify-stage,rk-simplify,rk-verify-stage,rk-annotate-cost,rk-verify-stage,rematerialize{budget=100% solver=greedy},rk-verify-schedule)' \
// RUN:   | FileCheck %s
// RUN: mlir-opt --load-pass-plugin=%plugin --load-dialect-plugin=%plugin %s --pass-pipeline='builtin.module(rematerialize{budget=100% solver=greedy})' | FileCheck %s
// RUN: rk-opt %s --rematerialize="budget=100% solver=greedy" | FileCheck %s
// RUN: rk-opt %s --rk-dataflow | rk-opt --rk-simplify | rk-opt --rk-annotate-cost | rk-opt --rematerialize="budget=100% solver=greedy" | FileCheck %s

// The whole pipeline inside stock mlir-opt: pass by pass, in one go, and the same in rk-opt and through pipes: every stage is
// printed and read again.
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"},
                %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "fc.weight", rk.trainable})
    -> (tensor<f32> {rk.role = "loss", rk.name = "loss"}, tensor<8x8xf32, #rk.strided<[1, 8]>> {rk.role = "gradient", rk.name = "fc.weight"})
    attributes {rk.stage = #rk.stage<raw>} {
  %h = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = rk.aten "aten.relu_.default"(%h) writes(0) aliases(0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.sum.default"(%h, none) : (tensor<4x8xf32>) -> tensor<f32>
  %one = rk.aten "aten.ones_like.default"(%s, none, none, none, none, none) backward : (tensor<f32>) -> tensor<f32>
  %e = rk.aten "aten.expand.default"(%one, [4, 8], false) aliases(0) backward : (tensor<f32>) -> tensor<4x8xf32, #rk.strided<[0, 0]>>
  %g = rk.aten "aten.threshold_backward.default"(%e, %r, 0) backward : (tensor<4x8xf32, #rk.strided<[0, 0]>>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %gt = rk.aten "aten.t.default"(%g) aliases(0) backward : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %gw = rk.aten "aten.mm.default"(%gt, %x) backward : (tensor<8x4xf32, #rk.strided<[1, 8]>>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %d = rk.aten "aten.t.default"(%gw) aliases(0) backward : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  return %s, %d : tensor<f32>, tensor<8x8xf32, #rk.strided<[1, 8]>>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME:    rk.stage = #rk.stage<scheduled>
// CHECK:         %[[H:.*]] = rk.run @mm(
// CHECK:         %[[R:.*]] = rk.run overwrite @relu_(%[[H]])
// CHECK:         %[[S:.*]] = rk.run @sum(%[[R]])
// CHECK:         %[[G:.*]] = rk.run @threshold_backward(
// CHECK:         rk.drop %[[R]]
// CHECK:         %[[GW:.*]] = rk.run @mm_1(
// CHECK:         rk.drop %[[G]]
// CHECK:         %[[D:.*]] = rk.aten "aten.t.default"(%[[GW]])
// CHECK:         return %[[S]], %[[D]]
