// RUN: rk-opt %s --rematerialize --budget=12KiB --rk-verify-schedule | FileCheck %s
// RUN: rk-opt %s --rematerialize="budget=75% solver=greedy" | FileCheck %s
// RUN: rk-opt %s --rematerialize="budget=15KiB reserve=3072" | FileCheck %s
// RUN: not rk-opt %s --rematerialize="budget=14KiB reserve=3072" 2>&1 | FileCheck %s --check-prefix=RESERVED

// A residual block: `add` reads `norm` again after `up` and `down`. Kept whole it peaks at 16 KiB, while `down` runs.
// With 12 KiB, `norm` is dropped early and run again just before `add`: 5 us instead of 4. Below 12 KiB nothing fits.
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
rk.node @add cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>, %z: tensor<32x32xf32>):
  %y = rk.aten "aten.add.Tensor"(%x, %z, 1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
func.func @step(%x: tensor<32x32xf32> {rk.role = "input", rk.name = "x"})
    -> (tensor<32x32xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<costed>} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %add = rk.run @add(%norm, %down) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// CHECK-LABEL: func.func @step(%arg0
// CHECK-SAME:    rk.base_peak = 16384 : i64
// CHECK-SAME:    rk.peak = 12288 : i64
// CHECK-SAME:    rk.time = 5000 : i64
// CHECK-NEXT:    %norm = rk.run @norm(%arg0)
// CHECK-NEXT:    %up = rk.run @up(%norm)
// CHECK-NEXT:    rk.drop %norm
// CHECK-NEXT:    %down = rk.run @down(%up)
// CHECK-NEXT:    rk.drop %up
// CHECK-NEXT:    %norm_0 = rk.run again @norm(%arg0)
// CHECK-NEXT:    %add = rk.run @add(%norm_0, %down)
// CHECK-NEXT:    rk.drop %norm_0
// CHECK-NEXT:    rk.drop %down
// CHECK-NEXT:    return %add

// With 3 KiB of 14 in other hands, 11 are left.
// RESERVED: fits 14.00 KiB; the smallest feasible budget found is 15.00 KiB
