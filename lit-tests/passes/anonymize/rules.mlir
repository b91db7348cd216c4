// RUN: rk-opt %s -split-input-file --rk-anonymize --remarks-filter=anonymize -o %t 2>&1 | FileCheck %s

// Two layers whose bodies are spelled differently, once per rule with a pair that it proves equal and a pair that it must not.
// By text all of them differ.

// commute: a residual sum is the same bits in either order.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%x, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%m, %x, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// commute, not: x + 2 f(x).
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%x, %m, 2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%m, %x, 2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// commute, not: a difference.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%x, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%m, %x, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-normal-form: t, and transpose with negative dimensions.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.transpose.int"(%w, -1, -2) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-normal-form: columns from the front and from the back.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = rk.aten "aten.slice.Tensor"(%m, 1, 4, 8, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>
  %y = rk.aten "aten.cat.default"([%h, %h], 1) : (tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>, tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = rk.aten "aten.slice.Tensor"(%m, -1, -4, 9223372036854775807, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>
  %y = rk.aten "aten.cat.default"([%h, %h], 1) : (tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>, tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-normal-form, not: other columns.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = rk.aten "aten.slice.Tensor"(%m, 1, 4, 8, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>
  %y = rk.aten "aten.cat.default"([%h, %h], 1) : (tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>, tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = rk.aten "aten.slice.Tensor"(%m, 1, 0, 4, 1) aliases(0) : (tensor<4x8xf32>) -> tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>
  %y = rk.aten "aten.cat.default"([%h, %h], 1) : (tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>, tensor<4x4xf32, #rk.strided<[8, 1], storage 128>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-of-view: transposed twice.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = rk.aten "aten.t.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %u = rk.aten "aten.transpose.int"(%t, 0, -1) aliases(0) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%u) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-of-view: detach is its operand.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %u = rk.aten "aten.detach.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%u) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// view-of-view, not: transposed once and read with other strides.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = rk.aten "aten.t.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %e = rk.aten "aten.exp.default"(%t) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.t.default"(%e) aliases(0) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// copy-of-fresh: a copy of a product.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = rk.aten "aten.clone.default"(%m, 0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// copy-of-fresh, not: the copy of an argument is storage of its own.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%m, %x, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = rk.aten "aten.clone.default"(%x, none) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%m, %c, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// reshape-is-view-of-copy: contiguous of a transposed product.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = rk.aten "aten.t.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %c = rk.aten "aten.contiguous.default"(%t, 0) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<8x4xf32>
  %y = rk.aten "aten.view.default"(%c, [4, 8]) aliases(0) : (tensor<8x4xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = rk.aten "aten.t.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.reshape.default"(%t, [4, 8]) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// reshape-is-view-of-copy, not: without the transposition.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.reshape.default"(%m, [4, 8]) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = rk.aten "aten.t.default"(%m) aliases(0) : (tensor<4x8xf32>) -> tensor<8x4xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.reshape.default"(%t, [4, 8]) : (tensor<8x4xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// dropout-off: p = 0.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d = rk.aten "aten.dropout.default"(%m, 0.0, true) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%d) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// dropout-off, not: p = 0.1.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d = rk.aten "aten.dropout.default"(%m, 0.1, true) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.exp.default"(%d) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// linear: a composite and what it calls.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %y = rk.aten "aten.linear.default"(%x, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.addmm.default"(%b, %x, %t, 1, 1) : (tensor<8xf32>, tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// linear, not: another beta.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %y = rk.aten "aten.linear.default"(%x, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.addmm.default"(%b, %x, %t, 2, 1) : (tensor<8xf32>, tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// linear, not: addmm against mm and add, which round differently.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %y = rk.aten "aten.addmm.default"(%b, %x, %t, 1, 1) : (tensor<8xf32>, tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<8x8xf32>) -> tensor<8x8xf32, #rk.strided<[1, 8]>>
  %m = rk.aten "aten.mm.default"(%x, %t) : (tensor<4x8xf32>, tensor<8x8xf32, #rk.strided<[1, 8]>>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%m, %b, 1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// wrap-dim: the last dimension by either number.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten._softmax.default"(%m, -1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten._softmax.default"(%m, 1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// wrap-dim, not: another dimension.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten._softmax.default"(%m, -1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten._softmax.default"(%m, 0, false) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// pack: stack is cat of unsqueezed tensors.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.stack.default"([%m], 0) : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %y = rk.aten "aten.sum.dim_IntList"(%s, [0], false, none) : (tensor<1x4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %u = rk.aten "aten.unsqueeze.default"(%m, 0) aliases(0) : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %s = rk.aten "aten.cat.default"([%u], 0) : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %y = rk.aten "aten.sum.dim_IntList"(%s, [0], false, none) : (tensor<1x4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// pack, not: another operator on the same list.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.stack.default"([%m], 0) : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %y = rk.aten "aten.sum.dim_IntList"(%s, [0], false, none) : (tensor<1x4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %u = rk.aten "aten.unsqueeze.default"(%m, 0) aliases(0) : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %s = rk.aten "aten.block_diag.default"([%u], 0) : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %y = rk.aten "aten.sum.dim_IntList"(%s, [0], false, none) : (tensor<1x4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// draws: the same draws in the same order, a product commuted.
// CHECK: blocks=4, classes=3, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%k, %l) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%l, %k) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// draws, not: two draws are never one value.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%k, %l) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%k, %k) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// draws, not: another probability.
// CHECK: blocks=4, classes=4, classes_by_text=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.5, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%m, %k) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 random { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = rk.aten "aten.bernoulli.p"(%m, 0.25, none) random : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.mul.Tensor"(%m, %k) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// associate: the sum of three costs the same in any order. Its bits differ, so no code is shared.
// CHECK: blocks=4, classes=4, classes_by_text=4, cost_classes=3
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.add.Tensor"(%x, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%s, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.add.Tensor"(%m, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.add.Tensor"(%x, %s, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}

// -----

// associate, not: differences.
// CHECK: blocks=4, classes=4, classes_by_text=4, cost_classes=4
rk.node @embed { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("embed")
  rk.yield %y : tensor<4x8xf32> }
rk.node @embed.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.relu.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("embed.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.sub.Tensor"(%x, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%s, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.0.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1 { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>):
  %m = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = rk.aten "aten.sub.Tensor"(%m, %m, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = rk.aten "aten.sub.Tensor"(%x, %s, 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1")
  rk.yield %y : tensor<4x8xf32> }
rk.node @h.1.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1.act")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head { ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("head")
  rk.yield %y : tensor<4x8xf32> }
rk.node @head.act { ^bb0(%x: tensor<4x8xf32>):
  %y = rk.aten "aten.sigmoid.default"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("head.act")
  rk.yield %y : tensor<4x8xf32> }
func.func @step(%x: tensor<4x8xf32> {rk.role = "input", rk.name = "x"}, %w: tensor<8x8xf32> {rk.role = "parameter", rk.name = "w"},
                %b: tensor<8xf32> {rk.role = "parameter", rk.name = "b"})
    -> (tensor<4x8xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @embed(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = rk.run @embed.act(%e) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = rk.run @h.0(%f, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = rk.run @h.0.act(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = rk.run @h.1(%h, %w, %b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %j = rk.run @h.1.act(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = rk.run @head(%j, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %l = rk.run @head.act(%k) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %l : tensor<4x8xf32>
}
