// RUN: rk-opt %s --rk-simplify -split-input-file -verify-diagnostics

func.func @written_outside(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{'aten.relu_.default' writes to a value outside of rk.write}}
  %b = rk.aten "aten.relu_.default"(%a) writes(0) aliases(0) : (tensor<2xf32>) -> tensor<2xf32>
  return %a : tensor<2xf32>
}

// -----

func.func @half_a_view(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{result 0 of 'mylib.pair.default' shares storage with an operand, others do not}}
  %b:2 = rk.aten "mylib.pair.default"(%a) aliases(0, -1) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %c = rk.aten "aten.add.Tensor"(%b#0, %b#1, 1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %c : tensor<2xf32>
}

// -----

func.func @undefined_returned(%x: tensor<2xf32>, %outside: tensor<0xi8>) -> (tensor<2xf32>, none) attributes {rk.stage = #rk.stage<dataflow>} {
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{result 1 of 'rk.tangents.default' is an undefined tensor (its type is none), and nothing can read one}}
  %dy:2 = rk.aten "rk.tangents.default"(%outside, %a) writes(0) : (tensor<0xi8>, tensor<2xf32>) -> (tensor<2xf32>, none)
  return %dy#0, %dy#1 : tensor<2xf32>, none
}

// -----

func.func @undefined_read(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  // expected-error @below {{result 0 of 'mylib.nothing.default' is an undefined tensor (its type is none), and nothing can read one}}
  %a = rk.aten "mylib.nothing.default"(%x) : (tensor<2xf32>) -> none
  %b = rk.aten "mylib.use.default"(%x, %a) : (tensor<2xf32>, none) -> tensor<2xf32>
  return %b : tensor<2xf32>
}
