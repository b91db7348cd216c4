// RUN: rk-opt %s --rk-anonymize --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --rk-anonymize --remarks-filter=anonymize -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Two layers in two styles. h.1 exchanges the operands of its sum and transposes the weight with another operator: by text they
// differ, bit by bit they do not. The head is alone. A class does not look at names, module paths or which parameter is read.
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.fc { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.0.fc")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.add { ^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
  %s = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %s : tensor<4x8xf32> }
rk.node @h.1.fc { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %t = rk.aten "aten.transpose.int"(%w, 0, 1) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1.fc")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.add { ^bb0(%y: tensor<4x8xf32>, %x: tensor<4x8xf32>):
  %s = rk.aten "aten.add.Tensor"(%y, %x, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %s : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("head")
  rk.yield %y : tensor<4x2xf32> }
rk.node @loss { ^bb0(%x: tensor<4x2xf32>):
  %y = rk.aten "aten.sum.default"(%x, none) : (tensor<4x2xf32>) -> tensor<f32> loc("loss")
  rk.yield %y : tensor<f32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"},
                %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "embed.weight"},
                %w0: tensor<8x8xf32> {rk.role = "parameter", rk.name = "h.0.fc.weight"},
                %w1: tensor<8x8xf32> {rk.role = "parameter", rk.name = "h.1.fc.weight"},
                %w2: tensor<8x2xf32> {rk.role = "parameter", rk.name = "head.weight"})
    -> (tensor<f32> {rk.role = "loss", rk.name = "loss"}) attributes {rk.stage = #rk.stage<simplified>} {
  %z = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %a = rk.run @h.0.fc(%z, %w0) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = rk.run @h.0.add(%z, %a) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = rk.run @h.1.fc(%b, %w1) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d = rk.run @h.1.add(%c, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = rk.run @head(%d, %w2) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %f = rk.run @loss(%e) : (tensor<4x2xf32>) -> tensor<f32>
  return %f : tensor<f32>
}

// CHECK:       rk.node @embed attributes {rk.block = 0 : i64, rk.node_class = 0 : i64}
// CHECK:       rk.node @h.0.fc attributes {rk.block = 1 : i64, rk.node_class = [[FC:.*]] : i64}
// CHECK:       rk.node @h.0.add attributes {rk.block = 1 : i64, rk.node_class = [[ADD:.*]] : i64}
// CHECK:       rk.node @h.1.fc attributes {rk.block = 2 : i64, rk.node_class = [[FC]] : i64}
// CHECK:       rk.node @h.1.add attributes {rk.block = 2 : i64, rk.node_class = [[ADD]] : i64}
// CHECK-LABEL: func.func @step
// CHECK-SAME:    rk.blocks = [
// CHECK-SAME:      {class = 0 : i64, cost_class = 0 : i64, forward_class = 0 : i64, name = "embed", spelling = 0 : i64}
// CHECK-SAME:      {class = 1 : i64, cost_class = 1 : i64, forward_class = 1 : i64, name = "h.0", spelling = 1 : i64}
// CHECK-SAME:      {class = 1 : i64, cost_class = 1 : i64, forward_class = 1 : i64, name = "h.1", spelling = 2 : i64}
// CHECK-SAME:      {class = 2 : i64, cost_class = 2 : i64, forward_class = 2 : i64, name = "head..loss", spelling = 3 : i64}
// CHECK-SAME:    rk.stage = #rk.stage<blocks>

// REMARK:      4 blocks in 3 classes (4 by text)
// REMARK-NEXT: class 0: embed
// REMARK-NEXT: class 1 x2: h.0, h.1
// REMARK-NEXT: class 2: head..loss
