// RUN: rk-opt %s --rk-lower --rk-verify-schedule | FileCheck %s
// RUN: sed 's/64, 128, 0/64, 128/' %s | not rk-opt --rk-lower 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/rk.budget = 192/rk.budget = 256/; s/64, 128, 0/64, 256, 0/' %s | not rk-opt --rk-lower 2>&1 | FileCheck %s --check-prefix=OVER

// RUN: sed 's/rk.budget = 192/rk.budget = 320/; s/64, 128, 0/64, 256, 0/' %s | rk-opt --rk-lower | FileCheck %s --check-prefix=GAPS

// Where the plan put values, they lie: packing would begin at 0. The layout then stands in the buffers, and only there.
// CHECK-LABEL: func.func @step
// CHECK-NOT:     rk.offsets
// CHECK:         %exp = rk.buffer arena[64] : tensor<16xf32>
// CHECK:         %neg = rk.buffer arena[128] : tensor<16xf32>
// CHECK-NEXT:    rk.launch @neg(%exp) into(%neg) workspace [0, 64] stream(0)

// What fits the budget, but with more than a hundredth lost to gaps, is packed anew.
// GAPS: rk.arena = 192

// OTHER: error: S7: there are 2 offsets for 3 buffers
// OTHER: note: 'rk.offsets' is the layout of another schedule: plan again, or take it away to have the step packed
// OVER: error: S7: an arena of 320 B does not fit the budget of 256 B
rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @neg cost <1000 ns, workspace 64 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 192 : i64, rk.offsets = array<i64: 64, 128, 0>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %neg = rk.run @neg(%exp) : (tensor<16xf32>) -> tensor<16xf32>
  rk.drop %exp : tensor<16xf32>
  return %neg : tensor<16xf32>
}
