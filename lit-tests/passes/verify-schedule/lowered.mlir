// RUN: rk-opt %s --rk-verify-schedule -split-input-file -verify-diagnostics

// Addresses from the IR, lives and sizes from the judge: 128 bytes for two values, and a workspace behind them.
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
// expected-remark @below {{'step' is legal: peak 192 B, arena 192 B, budget 192 B, 2 runs, 0 of them again}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64, rk.budget = 192 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @exp(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = rk.buffer arena[64] : tensor<16xf32>
  rk.launch @neg(%0) into(%1) workspace [128, 64] stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @neg cost <1000 ns, workspace 64 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64} {
  %1 = rk.buffer arena[64] : tensor<16xf32>
  // expected-error @below {{S7: 'neg' needs a workspace of 64 bytes, its place has 0}}
  rk.launch @neg(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @neg cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// expected-error @below {{S7 broken at step 0: 64 B while 'neg' (node 0) runs, budget 32 B}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64, rk.budget = 32 : i64} {
  %1 = rk.buffer arena[64] : tensor<16xf32>
  rk.launch @neg(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

rk.node @neg cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// The values fit, the arena that they are spread over does not.
// expected-error @below {{S7: an arena of 192 B does not fit the budget of 128 B}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 192 : i64, rk.budget = 128 : i64} {
  %1 = rk.buffer arena[128] : tensor<16xf32>
  rk.launch @neg(%x) into(%1) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}
