// RUN: rk-opt %s --rk-verify-schedule -split-input-file -verify-diagnostics

// A scheduled step with the layout of its plan: the places of exp, neg, and the workspace of neg.
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
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.arena = 192 : i64, rk.budget = 192 : i64, rk.offsets = array<i64: 64, 128, 0>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %neg = rk.run @neg(%exp) : (tensor<16xf32>) -> tensor<16xf32>
  rk.drop %exp : tensor<16xf32>
  return %neg : tensor<16xf32>
}

// -----

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
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 0, 64, 0>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @below {{S7: 'exp' (64 B at 0) and the workspace of 'neg' (64 B at 0) overlap while 'neg' runs (run 1)}}
  %neg = rk.run @neg(%exp) : (tensor<16xf32>) -> tensor<16xf32>
  rk.drop %exp : tensor<16xf32>
  return %neg : tensor<16xf32>
}

// -----

rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 96>} {
  // expected-error @below {{S7: 'exp' (64 B at 96) does not start at a multiple of 64 bytes}}
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %exp : tensor<16xf32>
}

// -----

rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
rk.node @relu cost <1000 ns, workspace 0 B> overwrites(0) {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %x : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 0, 64>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  // expected-error @below {{S7: 'relu' (64 B at 64) overwrites 'exp' (64 B at 0) in place, but lies elsewhere}}
  %relu = rk.run overwrite @relu(%exp) : (tensor<16xf32>) -> tensor<16xf32>
  return %relu : tensor<16xf32>
}

// -----

rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// The plan is another one than when this layout was made.
// expected-error @below {{S7: there are 2 offsets for 1 buffers}}
// expected-note @below {{'rk.offsets' is the layout of another schedule: plan again, or take it away to have the step packed}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 0, 64>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %exp : tensor<16xf32>
}

// -----

rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// expected-error @below {{S7: the layout takes 192 B, 'rk.arena' says 64 B}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.arena = 64 : i64, rk.offsets = array<i64: 128>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %exp : tensor<16xf32>
}

// -----

rk.node @exp cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// expected-error @below {{S7: an arena of 192 B does not fit the budget of 128 B}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 128 : i64, rk.offsets = array<i64: 128>} {
  %exp = rk.run @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %exp : tensor<16xf32>
}
