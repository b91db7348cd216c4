// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s --rematerialize="budget=100%% fuse=true" --rk-lower="target=cuda chip=sm_80 streams=2" -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: FileCheck %s < %t.rkx
// RUN: rk-run %t.rkx --print | FileCheck %s --check-prefix=PRINT
// RUN: rk-opt %s --rematerialize="budget=100%% fuse=true" -o %t.high.mlir
// RUN: not rk-translate %t.high.mlir --to step 2>&1 | FileCheck %s --check-prefix=HIGH

// A step for a GPU: its fused node carries PTX for the chip, the threads of its launch, and its parameters in the order of the entry.
module attributes {rk.device = "cuda", rk.alignment = 512 : i64} {
  rk.node @branch {
  ^bb0(%x: tensor<33x65xf32>):
    %h = rk.aten "aten.cumsum.default"(%x, 1) : (tensor<33x65xf32>) -> tensor<33x65xf32>
    rk.yield %h : tensor<33x65xf32>
  }
  rk.node @add {
  ^bb0(%x: tensor<33x65xf32>, %y: tensor<33x65xf32>):
    %s = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<33x65xf32>, tensor<33x65xf32>) -> tensor<33x65xf32>
    rk.yield %s : tensor<33x65xf32>
  }
  rk.node @relu {
  ^bb0(%x: tensor<33x65xf32>):
    %r = rk.aten "aten.relu.default"(%x) : (tensor<33x65xf32>) -> tensor<33x65xf32>
    rk.yield %r : tensor<33x65xf32>
  }
  func.func @step(%x: tensor<33x65xf32> {rk.role = "input", rk.name = "x"})
      -> (tensor<33x65xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<simplified>} {
    %h = rk.run @branch(%x) : (tensor<33x65xf32>) -> tensor<33x65xf32>
    %s = rk.run @add(%h, %x) : (tensor<33x65xf32>, tensor<33x65xf32>) -> tensor<33x65xf32>
    %r = rk.run @relu(%s) : (tensor<33x65xf32>) -> tensor<33x65xf32>
    return %r : tensor<33x65xf32>
  }
}

// CHECK: {"name":"relu"{{.*}}"kernel":{"aside":{"symbol":"rk_kernel_0_kernel","buffers":[{{.*}}],"geometry":{"grid":[9,1,1],"block":[256,1,1]}}
// CHECK: "library": {"level":"sm_80","ptx":[{"symbol":"rk_kernel_0_kernel","text":"{{.*}}.target sm_80{{.*}}.entry rk_kernel_0_kernel
// PRINT: lowered for cuda (sm_80)
// HIGH: error: '@relu' is fused, and only a lowered step has kernels for cuda; run --rk-lower
