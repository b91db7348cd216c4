// What is recorded has the path of its module as its location; errors name the line of the text as well.
//
// RUN: split-file %s %t
// RUN: not rk-opt %t/step.mlir --rematerialize=budget=8KiB 2>&1 | FileCheck %s
// RUN: rk-opt %t/step.mlir --rematerialize="budget=8KiB on-infeasible=smallest" --mlir-print-debuginfo -o %t/aliases.mlir 2> %t/warning
// RUN: FileCheck %s --input-file=%t/warning --check-prefix=WARNING
// RUN: rk-opt %t/aliases.mlir --mlir-print-debuginfo | FileCheck %s --check-prefix=KEPT
//
// Standard input cannot be read twice.
// RUN: not rk-opt --rematerialize=budget=8KiB < %t/step.mlir 2>&1 | FileCheck %s --check-prefix=STDIN

// CHECK: step.mlir:3:11: error: in 'layer1.0.down': no schedule of 'step' fits 8.00 KiB
// CHECK-NEXT: %down = rk.aten "aten.max_pool1d.default"
// CHECK-NEXT: ^
// CHECK: step.mlir:3:11: note: in 'layer1.0.down': 'layer1.0.down' holds the peak

// WARNING: step.mlir:3:11: warning: in 'layer1.0.down': no schedule
// KEPT: loc("layer1.0.up")

// STDIN: error: loc("layer1.0.down"): no schedule of 'step' fits

//--- step.mlir
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<raw>} {
  %up = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32> loc("layer1.0.up")
  %down = rk.aten "aten.max_pool1d.default"(%up, [2], [2], [0], [1], false) : (tensor<64x32xf32>) -> tensor<32x32xf32> loc("layer1.0.down")
  return %down : tensor<32x32xf32>
}
