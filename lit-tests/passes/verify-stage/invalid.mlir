// RUN: rk-opt %s --rk-verify-stage -split-input-file -verify-diagnostics

// expected-note @below {{the stage of 'step' is declared here}}
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{stage dataflow: 'relu_' overwrites 'neg', which is not state of the model}}
  %b = rk.aten "aten.relu_.default"(%a) writes(0) aliases(0) : (tensor<2xf32>) -> tensor<2xf32>
  return %a : tensor<2xf32>
}

// -----

// expected-note @below {{the stage of 'step' is declared here}}
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  // expected-error @below {{stage dataflow: 'neg' is dead}}
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

// expected-note @below {{the stage of 'step' is declared here}}
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<simplified>} {
  // expected-error @below {{stage simplified: 'neg' is an rk.aten, which this stage does not have}}
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %a : tensor<2xf32>
}

// -----

// expected-error @below {{node 'neg' has no cost}}
rk.node @neg {
^bb0(%x: tensor<2xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  rk.yield %y : tensor<2xf32>
}
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<costed>} {
  %neg = rk.run @neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %neg : tensor<2xf32>
}

// -----

rk.node @neg cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<2xf32>):
  %y = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  rk.yield %y : tensor<2xf32>
}
// expected-note @below {{the stage of 'step' is declared here}}
func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 0 : i64} {
  // expected-error @below {{stage lowered: 'neg' is an rk.run, which this stage does not have}}
  %neg = rk.run @neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %neg : tensor<2xf32>
}

// -----

// Transfers are decisions of a schedule.
rk.node @exp cost <1 ns, workspace 0 B> {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
// expected-note @below {{the stage of 'step' is declared here}}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<costed>} {
  %a = rk.run @exp(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{stage costed: 'exp.host' is an rk.offload, which this stage does not have}}
  %h = rk.offload %a : tensor<8xf32>
  return %a : tensor<8xf32>
}
