// Every op, attribute and type of docs/ir.md, read and printed in the custom form, and read back from the generic form.
// RUN: rk-opt %s --verify-roundtrip | FileCheck %s
// RUN: rk-opt %s --mlir-print-op-generic | rk-opt | FileCheck %s
// RUN: rk-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK: module attributes {rk.alignment = 64 : i64, rk.device = "cpu"}
module attributes {rk.device = "cpu", rk.alignment = 64 : i64} {

// CHECK: rk.node @layer1.0.conv1 cost <1200 ns, workspace 8192 B> {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x16xf32>):
// CHECK-NEXT: %mm = rk.aten "aten.mm.default"(%[[X]], %[[W]]) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT: rk.yield %mm : tensor<8x16xf32>
rk.node @layer1.0.conv1 cost <1200 ns, workspace 8192 B> {
^bb0(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  rk.yield %y : tensor<8x16xf32>
}
// GENERIC: "rk.aten"({{.*}}) <{args = [unit, unit], op_name = "aten.mm.default"}>

// CHECK: rk.node @bn1 {
// CHECK: rk.yield %native_batch_norm#0, %native_batch_norm#1 : tensor<8x16xf32>, tensor<16xf32>
rk.node @bn1 {
^bb0(%x: tensor<8x16xf32>, %m: tensor<16xf32>):
  %y, %s = rk.aten "aten.native_batch_norm.default"(%x, none, none, %m, none, true, 0.1, 1.0e-05) effects(1) : (tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  rk.yield %y, %s : tensor<8x16xf32>, tensor<16xf32>
}

// CHECK: rk.node @layer1.0.relu overwrites(0) backward cost <310 ns, workspace 0 B> {
// CHECK: %relu_ = rk.aten "aten.relu_.default"({{.*}}) writes(0) aliases(0) :
rk.node @layer1.0.relu cost <310 ns, workspace 0 B> backward overwrites(0) {
^bb0(%x: tensor<8x16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) aliases(0) writes(0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  rk.yield %x : tensor<8x16xf32>
}

// CHECK: rk.node @drop random {
rk.node @drop random {
^bb0(%x: tensor<8x16xf32>):
  %e = rk.aten "aten.empty_like.default"(%x, none, none, none, none, none) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %k = rk.aten "aten.bernoulli_.float"(%e, 0.9, none) writes(0) aliases(0) random : (tensor<8x16xf32>) -> tensor<8x16xf32>
  rk.yield %e : tensor<8x16xf32>
}

// CHECK: rk.node @count once attributes {rk.note = "kept"} {
// CHECK: rk.yield
// CHECK-NEXT: }
rk.node @count once attributes {rk.note = "kept"} {
^bb0(%n: tensor<i64>):
  %y = rk.aten "aten.add_.Scalar"(%n, 1, 1) writes(0) aliases(0) : (tensor<i64>) -> tensor<i64>
  rk.yield
}

// A symbol that is no bare identifier is quoted.
// CHECK: rk.node @"a b" {
rk.node @"a b" {
  rk.yield
}

// CHECK-LABEL: func.func @recorded
// CHECK-SAME: rk.stage = #rk.stage<raw>
func.func @recorded(%x: tensor<8x3xf32> {rk.role = "input", rk.name = "x"},
                    %w: tensor<4x3xf32> {rk.role = "parameter", rk.name = "fc.weight", rk.trainable, rk.aliases = ["head.weight"]})
    -> (tensor<f32> {rk.role = "loss", rk.name = "loss"}) attributes {rk.stage = #rk.stage<raw>} {
  // CHECK: %0 = rk.constant dense<[1, 2]> : tensor<2xi64>
  %c = rk.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: %t = rk.aten "aten.t.default"({{.*}}) aliases(0) : (tensor<4x3xf32>) -> tensor<3x4xf32, #rk.strided<[1, 3]>>
  %t = rk.aten "aten.t.default"(%w) aliases(0) : (tensor<4x3xf32>) -> tensor<3x4xf32, #rk.strided<[1, 3]>> loc("fc")
  // Every kind of argument. The numbers are the shortest that read back as the same.
  // CHECK: %every = rk.aten "ns.every.kind"([%{{.*}}, none, %{{.*}}], [1, -2, 9223372036854775807], {{\[\[}}], [true, false]], 0.1, 1.0e-5, 3.0, -2.5, 1.0e+30, inf, minus_inf, nan, "a\22b\\c", "") :
  %v = rk.aten "ns.every.kind"([%x, none, %t], [1, -2, 9223372036854775807], [[], [true, false]], 0.1, 1.0e-05, 3.0, -2.5, 1.0e30, inf, minus_inf, nan, "a\22b\\c", "") : (tensor<8x3xf32>, tensor<3x4xf32, #rk.strided<[1, 3]>>) -> tensor<4xf32, #rk.strided<[2], storage 64>>
  // GENERIC: args = {{\[\[}}unit, #rk.none, unit], [1, -2, 9223372036854775807], {{\[\[}}], [true, false]], 1.000000e-01, 1.000000e-05, 3.000000e+00, -2.500000e+00, 1.000000e+30, 0x7FF0000000000000 : f64, 0xFFF0000000000000 : f64, 0x7FF8000000000000 : f64, "a\22b\\c", ""]
  // CHECK: %convolution_backward:3 = rk.aten "aten.convolution_backward.default"({{.*}}, [false, true, false]) backward cost <5 ns, workspace 64 B> : ({{.*}}) -> (none, tensor<4xf32>, none)
  %g:3 = rk.aten "aten.convolution_backward.default"(%x, %x, [false, true, false]) backward cost <5 ns, workspace 64 B> : (tensor<8x3xf32>, tensor<8x3xf32>) -> (none, tensor<4xf32>, none)
  // CHECK: rk.aten "ns.nothing.default"() {rk.note = 1 : i64} : () -> ()
  rk.aten "ns.nothing.default"() {rk.note = 1 : i64} : () -> ()
  // CHECK: %sum = rk.aten "aten.sum.default"
  %s = rk.aten "aten.sum.default"(%v, none) : (tensor<4xf32, #rk.strided<[2], storage 64>>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @values
func.func @values(%y0: tensor<4x2xf32>, %src: tensor<4x1xf32>) -> tensor<4x2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  // CHECK: %write = rk.write(%{{.*}}, %{{.*}}) {
  // CHECK-NEXT: ^bb0(%[[Y:.*]]: tensor<4x2xf32>, %[[S:.*]]: tensor<4x1xf32>):
  // CHECK-NEXT: %slice = rk.aten "aten.slice.Tensor"(%[[Y]], 1, 0, 1, 1) aliases(0)
  // CHECK-NEXT: %copy_ = rk.aten "aten.copy_.default"(%slice, %[[S]], false) writes(0) aliases(0)
  // CHECK-NEXT: rk.yield %[[Y]] : tensor<4x2xf32>
  // CHECK-NEXT: } : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %y1 = rk.write(%y0, %src) {
  ^bb0(%y: tensor<4x2xf32>, %s: tensor<4x1xf32>):
    %v = rk.aten "aten.slice.Tensor"(%y, 1, 0, 1, 1) aliases(0) : (tensor<4x2xf32>) -> tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>
    %w = rk.aten "aten.copy_.default"(%v, %s, false) writes(0) aliases(0) : (tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>, tensor<4x1xf32>) -> tensor<4x1xf32, #rk.strided<[2, 1], storage 32>>
    rk.yield %y : tensor<4x2xf32>
  } : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  return %y1 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %m: tensor<16xf32>, %n: tensor<i64>) -> tensor<8x16xf32>
    attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 4096 : i64} {
  // CHECK-NEXT: %layer1.0.conv1 = rk.run @layer1.0.conv1(%arg0, %arg1) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %conv1 = rk.run @layer1.0.conv1(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: %bn1, %bn1.1 = rk.run @bn1(%layer1.0.conv1, %arg2)
  %bn1, %stat = rk.run @bn1(%conv1, %m) : (tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  rk.drop %stat : tensor<16xf32>
  rk.drop %conv1 : tensor<8x16xf32>
  // CHECK: %layer1.0.relu = rk.run overwrite @layer1.0.relu(%bn1)
  %relu = rk.run overwrite @layer1.0.relu(%bn1) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: %drop, %drop.state = rk.run @drop(%layer1.0.relu) : (tensor<8x16xf32>) -> (tensor<8x16xf32>, !rk.generator)
  %drop, %state = rk.run @drop(%relu) : (tensor<8x16xf32>) -> (tensor<8x16xf32>, !rk.generator)
  rk.drop %drop : tensor<8x16xf32>
  // CHECK: rk.run @count(%arg3) : (tensor<i64>) -> ()
  rk.run @count(%n) : (tensor<i64>) -> ()
  // CHECK-NEXT: %layer1.0.conv1_0 = rk.run again @layer1.0.conv1(%arg0, %arg1)
  %again = rk.run again @layer1.0.conv1(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: rk.drop %layer1.0.conv1_0 : tensor<8x16xf32>
  rk.drop %again : tensor<8x16xf32>
  // CHECK-NEXT: %drop_1 = rk.run again @drop(%layer1.0.relu, %drop.state) : (tensor<8x16xf32>, !rk.generator) -> tensor<8x16xf32>
  %drop2 = rk.run again @drop(%relu, %state) : (tensor<8x16xf32>, !rk.generator) -> tensor<8x16xf32>
  // CHECK-NEXT: rk.drop %drop.state : !rk.generator
  rk.drop %state : !rk.generator
  rk.drop %relu : tensor<8x16xf32>
  // CHECK: %view = rk.aten "aten.view.default"(%drop_1, [8, 16]) aliases(0)
  %v = rk.aten "aten.view.default"(%drop2, [8, 16]) aliases(0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: return %view
  return %v : tensor<8x16xf32>
}

// What moves is named after the run that made it: `.host` in host memory, a number for what comes back.
// CHECK-LABEL: func.func @transfers
func.func @transfers(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %n: tensor<i64>) -> tensor<8x16xf32> attributes {rk.stage = #rk.stage<costed>} {
  // CHECK: %layer1.0.conv1 = rk.run @layer1.0.conv1
  %a = rk.run @layer1.0.conv1(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: %layer1.0.conv1.host = rk.offload %layer1.0.conv1 : tensor<8x16xf32>
  // GENERIC: "rk.offload"({{.*}}) : (tensor<8x16xf32>) -> !rk.host<tensor<8x16xf32>>
  %h = rk.offload %a : tensor<8x16xf32>
  rk.run @count(%n) : (tensor<i64>) -> ()
  // CHECK: rk.wait %layer1.0.conv1.host : !rk.host<tensor<8x16xf32>>
  rk.wait %h : !rk.host<tensor<8x16xf32>>
  rk.drop %a : tensor<8x16xf32>
  // CHECK: %layer1.0.conv1_0 = rk.fetch %layer1.0.conv1.host {note = "kept"} : tensor<8x16xf32>
  // GENERIC: "rk.fetch"({{.*}}) {note = "kept"} : (!rk.host<tensor<8x16xf32>>) -> tensor<8x16xf32>
  %f = rk.fetch %h {note = "kept"} : tensor<8x16xf32>
  // CHECK-NEXT: %layer1.0.relu = rk.run @layer1.0.relu
  %r = rk.run @layer1.0.relu(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: rk.wait %layer1.0.conv1_0 : tensor<8x16xf32>
  rk.wait %f : tensor<8x16xf32>
  // CHECK-NEXT: rk.drop %layer1.0.conv1.host : !rk.host<tensor<8x16xf32>>
  rk.drop %h : !rk.host<tensor<8x16xf32>>
  return %r : tensor<8x16xf32>
}
}
