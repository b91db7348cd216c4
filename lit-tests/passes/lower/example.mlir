// RUN: rk-opt %s --rk-lower --rk-verify-schedule --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --rk-lower --verify-roundtrip | rk-opt --rk-lower --cse --canonicalize | FileCheck %s
// RUN: rk-opt %s --rk-lower --mlir-print-op-generic | rk-opt | FileCheck %s
// RUN: rk-opt %s --rk-lower=streams=2 | FileCheck %s --check-prefix=STREAMS

// The residual block of --rematerialize, planned for 12 KiB: `norm` is dropped early and made again just before `add`.
rk.node @norm cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @up cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.yield %y : tensor<64x32xf32>
}
rk.node @down cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<64x32xf32>):
  %y = rk.aten "aten.max_pool1d.default"(%x, [2], [2], [0], [1], false) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @add cost <1000 ns, workspace 64 B> {
^bb0(%x: tensor<32x32xf32>, %z: tensor<32x32xf32>):
  %y = rk.aten "aten.add.Tensor"(%x, %z, 1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
func.func @step(%x: tensor<32x32xf32>) -> (tensor<32x32xf32> {rk.role = "output", rk.name = "0"})
    attributes {rk.stage = #rk.stage<scheduled>} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.drop %norm : tensor<32x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.drop %up : tensor<64x32xf32>
  %norm_0 = rk.run again @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %add = rk.run @add(%norm_0, %down) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.drop %norm_0 : tensor<32x32xf32>
  rk.drop %down : tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// No runs and no drops any more: places, and launches that write there. The workspace of `add` lies behind its result.
// CHECK-LABEL: func.func @step(%arg0
// CHECK-SAME:    rk.arena = 12352 : i64, rk.gradients = 0 : i64, rk.stage = #rk.stage<lowered>, rk.target = "cpu"
// CHECK-NEXT:    %norm = rk.buffer arena[8192] : tensor<32x32xf32>
// CHECK-NEXT:    rk.launch @norm(%arg0) into(%norm) stream(0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
// CHECK-NEXT:    %up = rk.buffer arena[0] : tensor<64x32xf32>
// CHECK-NEXT:    rk.launch @up(%norm) into(%up) stream(0) : (tensor<32x32xf32>) -> tensor<64x32xf32>
// CHECK-NEXT:    %down = rk.buffer arena[8192] : tensor<32x32xf32>
// CHECK-NEXT:    rk.launch @down(%up) into(%down) stream(0)
// CHECK-NEXT:    %norm_0 = rk.buffer arena[{{.*}}] : tensor<32x32xf32>
// CHECK-NEXT:    rk.launch again @norm(%arg0) into(%norm_0) stream(0)
// CHECK-NEXT:    %add = rk.buffer arena[{{.*}}] : tensor<32x32xf32>
// CHECK-NEXT:    rk.launch @add(%norm_0, %down) into(%add) workspace [12288, 64] stream(0)
// CHECK-NEXT:    return %add

// The second run has a stream of its own; places are the same.
// STREAMS:     rk.launch @down(%up) into(%down) stream(0)
// STREAMS:     rk.launch again @norm(%arg0) into(%norm_0) stream(1)
// STREAMS:     rk.launch @add(%norm_0, %down) into(%add) workspace [12288, 64] stream(0)
