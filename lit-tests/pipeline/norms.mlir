// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rk-fuse=exact=false --rematerialize=budget=100%% --rk-lower -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: FileCheck %s --check-prefix=STEP < %t.rkx
// RUN: rk-run %t.rkx --check --steps 2 --repeat 0 --json | FileCheck %s
// RUN: rk-opt %s --rk-fuse | FileCheck %s --check-prefix=EXACT

// A sum and the layer norm that reads it run as one kernel with three results, and the sum is never stored. How near
// its results are to ATen's is compared with a bound in codegen/kernels/tests.
rk.node @sum {
^bb0(%x: tensor<64x33x2xf32>, %y: tensor<64x33x2xf32>):
  %h = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<64x33x2xf32>, tensor<64x33x2xf32>) -> tensor<64x33x2xf32>
  rk.yield %h : tensor<64x33x2xf32>
}
rk.node @norm {
^bb0(%x: tensor<64x33x2xf32>, %w: tensor<2xf32>, %b: tensor<2xf32>):
  %h:3 = rk.aten "aten.native_layer_norm.default"(%x, [2], %w, %b, 1.0e-5) : (tensor<64x33x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<64x33x2xf32>, tensor<64x33x1xf32>, tensor<64x33x1xf32>)
  rk.yield %h#0, %h#1, %h#2 : tensor<64x33x2xf32>, tensor<64x33x1xf32>, tensor<64x33x1xf32>
}
func.func @step(%x: tensor<64x33x2xf32> {rk.role = "input", rk.name = "x"},
                %y: tensor<64x33x2xf32> {rk.role = "input", rk.name = "y"},
                %w: tensor<2xf32> {rk.role = "parameter", rk.name = "weight"},
                %b: tensor<2xf32> {rk.role = "parameter", rk.name = "bias"})
    -> (tensor<64x33x2xf32> {rk.role = "output", rk.name = "0"}, tensor<64x33x1xf32> {rk.role = "output", rk.name = "1"},
        tensor<64x33x1xf32> {rk.role = "output", rk.name = "2"}) attributes {rk.stage = #rk.stage<simplified>} {
  %s = rk.run @sum(%x, %y) : (tensor<64x33x2xf32>, tensor<64x33x2xf32>) -> tensor<64x33x2xf32>
  %n:3 = rk.run @norm(%s, %w, %b) : (tensor<64x33x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<64x33x2xf32>, tensor<64x33x1xf32>, tensor<64x33x1xf32>)
  return %n#0, %n#1, %n#2 : tensor<64x33x2xf32>, tensor<64x33x1xf32>, tensor<64x33x1xf32>
}

// EXACT: rk.node @sum
// EXACT: rk.node @norm
// STEP-NOT: "name":"sum"
// STEP: {"name":"norm"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"
// The outputs alone: 64 x 33 x 2 and twice 64 x 33 numbers of 4 bytes. Bits are those of the same kernel.
// CHECK: "measured_peak_bytes":33792,{{.*}}"outside_allocations":0,{{.*}}"bit_equal":true,{{.*}}"stated_terms":2,
