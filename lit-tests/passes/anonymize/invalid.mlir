// RUN: rk-opt %s --rk-anonymize -allow-unregistered-dialect -split-input-file -verify-diagnostics

// expected-error @below {{node 'one' reads a value that no run makes}}
rk.node @one {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %e : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<simplified>} {
  %z = "foreign.op"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %one = rk.run @one(%z) : (tensor<16xf32>) -> tensor<16xf32>
  return %one : tensor<16xf32>
}

// -----

// expected-error @below {{node 'one' has a call that reads what is not in its body}}
rk.node @one {
^bb0(%x: tensor<16xf32>):
  %z = "foreign.op"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %e = rk.aten "aten.exp.default"(%z) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %e : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<simplified>} {
  %one = rk.run @one(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %one : tensor<16xf32>
}

// -----

// expected-error @below {{node 'one' yields what is not in its body}}
rk.node @one {
^bb0(%x: tensor<16xf32>):
  %e = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %z = "foreign.op"(%e) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %z : tensor<16xf32>
}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<simplified>} {
  %one = rk.run @one(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %one : tensor<16xf32>
}
