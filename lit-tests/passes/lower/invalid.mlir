// RUN: split-file %s %t
// RUN: not rk-opt %t/step.mlir --rk-lower=target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not rk-opt %t/step.mlir --rk-lower=target=cuda 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not rk-opt %t/step.mlir --rk-lower=chip=sm_90 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not rk-opt %t/cuda.mlir --rk-lower=chip=gfx90a 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not rk-opt %t/cuda.mlir --rk-lower=chip=sm_35 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not rk-opt %t/step.mlir --rk-lower=streams=0 2>&1 | FileCheck %s --check-prefix=STREAMS
// RUN: not rk-opt %t/step.mlir --rk-lower=streams=two 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: rk-opt %t/cuda.mlir --rk-lower | FileCheck %s --check-prefix=SM90
// RUN: not rk-opt %t/step.mlir --rk-lower=budget=8KiB 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not rk-opt %t/step.mlir --rk-lower=budget=lots 2>&1 | FileCheck %s --check-prefix=WORD

// TARGET: error: target 'tpu' is neither cpu nor cuda
// DEVICE: error: the step was recorded on cpu, its kernels and workspaces are not those of cuda; import it again with --device cuda
// CPU: error: chip 'sm_90' is a GPU, the target is cpu
// CHIP: error: chip '{{.*}}' is no GPU that can be compiled for, such as sm_80 or sm_90
// STREAMS: error: 0 streams: there can be 1 to 16
// NUMBER: error: option 'streams' of rk-lower: 'two'
// SM90: rk.chip = "sm_90"{{.*}}rk.target = "cuda"
// BUDGET: error: no schedule of 'step' fits 8.00 KiB
// WORD: error: option 'budget' of rematerialize: 'lots'

//--- step.mlir
rk.node @norm cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x64xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  rk.yield %y : tensor<32x64xf32>
}
rk.node @up cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x64xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  rk.yield %y : tensor<32x64xf32>
}
func.func @step(%x: tensor<32x64xf32>) -> tensor<32x64xf32> attributes {rk.stage = #rk.stage<costed>} {
  %norm = rk.run @norm(%x) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %up = rk.run @up(%norm) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %up : tensor<32x64xf32>
}

//--- cuda.mlir
module attributes {rk.device = "cuda"} {
  rk.node @a cost <1000 ns, workspace 0 B> {
  ^bb0(%x: tensor<16xf32>):
    %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
    rk.yield %y : tensor<16xf32>
  }
  func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<costed>} {
    %a = rk.run @a(%x) : (tensor<16xf32>) -> tensor<16xf32>
    return %a : tensor<16xf32>
  }
}
