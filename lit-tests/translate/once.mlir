// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rematerialize="budget=100%% fuse=true" -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: FileCheck %s --input-file %t.rkx
// RUN: rk-run %t.rkx --check=all --steps 2 --repeat 0 --json | FileCheck %s --check-prefix=BITS

// Three equal layers and one of another width: two classes, two kernels, and the calls of each class stand in the file once.
rk.node @h.0.fc {
^bb0(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  rk.yield %y : tensor<16x64xf32>
}
rk.node @h.0.scale {
^bb0(%y: tensor<16x64xf32>):
  %s = rk.aten "aten.mul.Tensor"(%y, 0.5) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %s : tensor<16x64xf32>
}
rk.node @h.0.relu {
^bb0(%s: tensor<16x64xf32>):
  %r = rk.aten "aten.relu.default"(%s) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %r : tensor<16x64xf32>
}
rk.node @h.1.fc {
^bb0(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  rk.yield %y : tensor<16x64xf32>
}
rk.node @h.1.scale {
^bb0(%y: tensor<16x64xf32>):
  %s = rk.aten "aten.mul.Tensor"(%y, 0.5) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %s : tensor<16x64xf32>
}
rk.node @h.1.relu {
^bb0(%s: tensor<16x64xf32>):
  %r = rk.aten "aten.relu.default"(%s) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %r : tensor<16x64xf32>
}
rk.node @h.2.fc {
^bb0(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  rk.yield %y : tensor<16x64xf32>
}
rk.node @h.2.scale {
^bb0(%y: tensor<16x64xf32>):
  %s = rk.aten "aten.mul.Tensor"(%y, 0.5) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %s : tensor<16x64xf32>
}
rk.node @h.2.relu {
^bb0(%s: tensor<16x64xf32>):
  %r = rk.aten "aten.relu.default"(%s) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  rk.yield %r : tensor<16x64xf32>
}
rk.node @h.3.fc {
^bb0(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>):
  %y = rk.aten "aten.mm.default"(%x, %w) : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  rk.yield %y : tensor<16x32xf32>
}
rk.node @h.3.scale {
^bb0(%y: tensor<16x32xf32>):
  %s = rk.aten "aten.mul.Tensor"(%y, 0.5) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  rk.yield %s : tensor<16x32xf32>
}
rk.node @h.3.relu {
^bb0(%s: tensor<16x32xf32>):
  %r = rk.aten "aten.relu.default"(%s) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  rk.yield %r : tensor<16x32xf32>
}
func.func @step(%x: tensor<16x64xf32> {rk.role = "input", rk.name = "x"},
                %w0: tensor<64x64xf32> {rk.role = "parameter", rk.name = "h.0.fc.weight"},
                %w1: tensor<64x64xf32> {rk.role = "parameter", rk.name = "h.1.fc.weight"},
                %w2: tensor<64x64xf32> {rk.role = "parameter", rk.name = "h.2.fc.weight"},
                %w3: tensor<64x32xf32> {rk.role = "parameter", rk.name = "h.3.fc.weight"})
    -> (tensor<16x32xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %y0 = rk.run @h.0.fc(%x, %w0) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %s0 = rk.run @h.0.scale(%y0) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %r0 = rk.run @h.0.relu(%s0) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %y1 = rk.run @h.1.fc(%r0, %w1) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %s1 = rk.run @h.1.scale(%y1) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %r1 = rk.run @h.1.relu(%s1) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %y2 = rk.run @h.2.fc(%r1, %w2) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %s2 = rk.run @h.2.scale(%y2) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %r2 = rk.run @h.2.relu(%s2) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %y3 = rk.run @h.3.fc(%r2, %w3) : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %s3 = rk.run @h.3.scale(%y3) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %r3 = rk.run @h.3.relu(%s3) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %r3 : tensor<16x32xf32>
}

// CHECK:      {"name":"h.0.fc","inputs":2,"ops":[{"op":"aten.mm.default"
// CHECK-NEXT: {"name":"h.0.relu","inputs":1,"ops":[{"op":"aten.mul.Tensor"{{.*}}"aten.relu.default"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"
// CHECK-NEXT: {"name":"h.1.fc","inputs":2,"ops":0,
// CHECK-NEXT: {"name":"h.1.relu","inputs":1,"ops":1,{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"
// CHECK-NEXT: {"name":"h.2.fc","inputs":2,"ops":0,
// CHECK-NEXT: {"name":"h.2.relu","inputs":1,"ops":1,{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"
// CHECK-NEXT: {"name":"h.3.fc","inputs":2,"ops":0,
// CHECK-NEXT: {"name":"h.3.relu","inputs":1,"ops":1,{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_1"
// CHECK-NOT:  rk_kernel_2
// The symbols of the machine code, in hexadecimal: two functions.
// CHECK:      "library": {{.*}}726b5f6b65726e656c5f30{{.*}}726b5f6b65726e656c5f31
// CHECK-NOT:  726b5f6b65726e656c5f32
// BITS: "bit_equal":true
