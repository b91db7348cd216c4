// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rematerialize="budget=100%% fuse=true" -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: FileCheck %s --check-prefix=STEP < %t.rkx
// RUN: rk-run %t.rkx --check=all --steps 2 --repeat 0 --json | FileCheck %s
// RUN: not rk-run %t.rkx --check=all --steps 2 --repeat 0 --json --kernels off > %t.off
// RUN: FileCheck %s --check-prefix=OFF < %t.off
// RUN: rk-opt %t.mlir --rk-lower --rk-verify-stage -o %t.lowered.mlir
// RUN: FileCheck %s --check-prefix=LOWERED < %t.lowered.mlir
// RUN: rk-translate %t.lowered.mlir --to step -o %t.lowered.rkx
// RUN: rk-run %t.lowered.rkx --check=all --steps 2 --repeat 0 --json | FileCheck %s --check-prefix=ARENA

// Fused nodes run as machine code that the step file carries, aside and in place, in f32 and bf16, and give ATen's bits.
rk.node @branch {
^bb0(%x: tensor<33x65xf32>):
  %h = rk.aten "aten.cumsum.default"(%x, 1) : (tensor<33x65xf32>) -> tensor<33x65xf32>
  rk.yield %h : tensor<33x65xf32>
}
rk.node @add overwrites(0) {
^bb0(%x: tensor<33x65xf32>, %y: tensor<33x65xf32>):
  %s = rk.aten "aten.add_.Tensor"(%x, %y, 0.3) writes(0) aliases(0) : (tensor<33x65xf32>, tensor<33x65xf32>) -> tensor<33x65xf32>
  rk.yield %x : tensor<33x65xf32>
}
rk.node @relu overwrites(0) {
^bb0(%x: tensor<33x65xf32>):
  %r = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<33x65xf32>) -> tensor<33x65xf32>
  rk.yield %x : tensor<33x65xf32>
}
rk.node @cast {
^bb0(%x: tensor<33x65xf32>):
  %c = rk.aten "aten._to_copy.default"(%x, 15, none, none, none, false, none) : (tensor<33x65xf32>) -> tensor<33x65xbf16>
  rk.yield %c : tensor<33x65xbf16>
}
rk.node @bias {
^bb0(%x: tensor<33x65xbf16>, %b: tensor<65xbf16>):
  %m = rk.aten "aten.mul.Tensor"(%x, %b) : (tensor<33x65xbf16>, tensor<65xbf16>) -> tensor<33x65xbf16>
  rk.yield %m : tensor<33x65xbf16>
}
func.func @step(%x: tensor<33x65xf32> {rk.role = "input", rk.name = "x"},
                %b: tensor<65xbf16> {rk.role = "parameter", rk.name = "bias"})
    -> (tensor<33x65xf32> {rk.role = "output", rk.name = "0"}, tensor<33x65xbf16> {rk.role = "output", rk.name = "1"})
    attributes {rk.stage = #rk.stage<simplified>} {
  %h = rk.run @branch(%x) : (tensor<33x65xf32>) -> tensor<33x65xf32>
  %s = rk.run @add(%h, %x) : (tensor<33x65xf32>, tensor<33x65xf32>) -> tensor<33x65xf32>
  %r = rk.run @relu(%s) : (tensor<33x65xf32>) -> tensor<33x65xf32>
  %c = rk.run @cast(%x) : (tensor<33x65xf32>) -> tensor<33x65xbf16>
  %m = rk.run @bias(%c, %b) : (tensor<33x65xbf16>, tensor<65xbf16>) -> tensor<33x65xbf16>
  return %r, %m : tensor<33x65xf32>, tensor<33x65xbf16>
}

// STEP: {"name":"relu"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"{{.*}}"in_place":{"symbol":"rk_kernel_1"
// STEP: {"name":"bias"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_2"
// STEP: "library": {"level":"x86-64-v3","elf":"7f454c46
// CHECK: "measured_peak_bytes":12870,{{.*}}"baseline_peak_bytes":17160,{{.*}}"bit_equal":true
// The calls give the same bits, with an intermediate more than the plan allows: exit code 5.
// OFF: "measured_peak_bytes":17160,{{.*}}"bit_equal":true
// Lowered, the kernels write to planned addresses: the branch's place is handed over, and nothing is allocated outside of the arena.
// LOWERED: rk.launch overwrite @relu(%[[H:.*]], %{{.*}}) into(%
// ARENA: "measured_peak_bytes":12870,{{.*}}"outside_allocations":0,{{.*}}"bit_equal":true
