// RUN: rk-opt %s --rk-dataflow -split-input-file -verify-diagnostics

func.func @metadata(%x: tensor<2x3xf32>) -> tensor<3x2xf32, #rk.strided<[1, 3]>> attributes {rk.stage = #rk.stage<raw>} {
  %h = rk.aten "aten.relu.default"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // expected-error @below {{'aten.t_.default' changes the shape of its operand in place}}
  %t = rk.aten "aten.t_.default"(%h) writes(0) aliases(0) : (tensor<2x3xf32>) -> tensor<3x2xf32, #rk.strided<[1, 3]>>
  return %t : tensor<3x2xf32, #rk.strided<[1, 3]>>
}

// -----

func.func @foreign(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<raw>} {
  // expected-error @below {{'arith.addf' is not an op of stage raw}}
  %y = arith.addf %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
