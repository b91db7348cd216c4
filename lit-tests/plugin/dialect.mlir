// Stock mlir-opt with librk.so: the dialect is read, verified and printed, and the passes are there.
// REQUIRES: plugin
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --pass-pipeline='builtin.module(cse,canonicalize)' | FileCheck %s
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(cse)' | FileCheck %s
// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: Dialect `rk' not found

// CHECK: rk.node @layer1.0.relu overwrites(0)
rk.node @layer1.0.relu overwrites(0) {
^bb0(%x: tensor<8x16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  rk.yield %x : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  // CHECK-NEXT: %layer1.0.relu = rk.run @layer1.0.relu(%arg0)
  %a = rk.run @layer1.0.relu(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: rk.drop %layer1.0.relu :
  rk.drop %a : tensor<8x16xf32>
  // CHECK-NEXT: %layer1.0.relu_0 = rk.run again @layer1.0.relu(%arg0)
  %b = rk.run again @layer1.0.relu(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %b : tensor<8x16xf32>
}
