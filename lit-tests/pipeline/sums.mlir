// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rk-fuse=exact=false --rematerialize=budget=100%% --rk-lower -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: FileCheck %s --check-prefix=STEP < %t.rkx
// RUN: rk-run %t.rkx --check=all --steps 2 --repeat 0 --json | FileCheck %s

// A product and its sum run as one kernel, and the product is never stored. The sum of two numbers has one order, so the bits are
// ATen's here; those of longer sums are compared with their bound in codegen/kernels/tests.
rk.node @product {
^bb0(%x: tensor<64x33x2xf32>, %w: tensor<2xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, %w) : (tensor<64x33x2xf32>, tensor<2xf32>) -> tensor<64x33x2xf32>
  rk.yield %h : tensor<64x33x2xf32>
}
rk.node @rows {
^bb0(%x: tensor<64x33x2xf32>):
  %h = rk.aten "aten.sum.dim_IntList"(%x, [2], false, none) : (tensor<64x33x2xf32>) -> tensor<64x33xf32>
  rk.yield %h : tensor<64x33xf32>
}
func.func @step(%x: tensor<64x33x2xf32> {rk.role = "input", rk.name = "x"},
                %w: tensor<2xf32> {rk.role = "parameter", rk.name = "weight"})
    -> (tensor<64x33xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
  %p = rk.run @product(%x, %w) : (tensor<64x33x2xf32>, tensor<2xf32>) -> tensor<64x33x2xf32>
  %s = rk.run @rows(%p) : (tensor<64x33x2xf32>) -> tensor<64x33xf32>
  return %s : tensor<64x33xf32>
}

// STEP: {"name":"rows"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0"
// 64 x 33 sums of 4 bytes; the product would be twice as much.
// CHECK: "measured_peak_bytes":8448,{{.*}}"outside_allocations":0,{{.*}}"baseline_peak_bytes":25344,{{.*}}"bit_equal":true
