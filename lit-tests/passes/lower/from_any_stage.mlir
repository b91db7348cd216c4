// A recorded step: missing stages are run first. In-place work keeps its place, gradients have their own space, a mask is drawn
// once and the same again, and what is no decision of a planner stays in its original order.
// RUN: rk-opt %s --rk-lower --rk-verify-schedule | FileCheck %s --check-prefixes=CHECK,KEEP
// RUN: rk-opt %s --rk-lower="budget=80%" | FileCheck %s --check-prefixes=CHECK,AGAIN
// RUN: rk-opt %s --rematerialize --rk-lower --budget=80% | FileCheck %s --check-prefixes=CHECK,AGAIN

// CHECK-LABEL: func.func @step(
// CHECK-SAME:  rk.gradients = 65536 : i64
// KEEP-NOT:    rk.budget
// KEEP-NOT:    again
// KEEP:        %[[G:.*]] = rk.buffer gradients[0] : tensor<128x128xf32>
// KEEP:        return {{.*}}%[[G]]
// AGAIN:       %state = rk.buffer arena[{{.*}}] : !rk.generator
// AGAIN-NEXT:  rk.save_state %state : !rk.generator
// AGAIN-NEXT:  rk.launch @drop
// AGAIN:       %parked = rk.buffer parking[0] : !rk.generator
// AGAIN-NEXT:  rk.save_state %parked : !rk.generator
// AGAIN-NEXT:  rk.load_state %state : !rk.generator
// AGAIN-NEXT:  rk.launch again @drop
// AGAIN-NEXT:  rk.load_state %parked : !rk.generator
module attributes {rk.device = "cpu", rk.alignment = 64 : i64} {
  func.func @step(%x: tensor<128x128xf32> {rk.role = "input", rk.name = "x"},
                  %w: tensor<128x128xf32> {rk.role = "parameter", rk.name = "w", rk.trainable})
      -> (tensor<f32> {rk.role = "loss", rk.name = "loss"}, tensor<128x128xf32> {rk.role = "gradient", rk.name = "w"})
      attributes {rk.stage = #rk.stage<raw>} {
    %a = rk.aten "aten.mm.default"(%x, %w) cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("fc")
    %e = rk.aten "aten.empty_like.default"(%a, none, none, none, none, none) cost <100 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("drop")
    %k = rk.aten "aten.bernoulli_.float"(%e, 0.9, none) writes(0) aliases(0) random cost <100 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("drop")
    %m = rk.aten "aten.mul.Tensor"(%a, %k) cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("mul")
    %t = rk.aten "aten.tanh.default"(%m) cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("tanh")
    %s = rk.aten "aten.sin.default"(%t) cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("sin")
    %l = rk.aten "aten.sum.default"(%s, none) cost <100 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<f32> loc("loss")
    %c = rk.aten "aten.cos.default"(%t) backward cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("sin")
    %h = rk.aten "aten.tanh_backward.default"(%c, %t) backward cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("tanh")
    %b = rk.aten "aten.mul.Tensor"(%h, %k) backward cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("mul")
    %g = rk.aten "aten.mm.default"(%x, %b) backward cost <90000 ns, workspace 0 B> : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("fc")
    return %l, %g : tensor<f32>, tensor<128x128xf32>
  }
}
