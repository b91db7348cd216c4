// RUN: rk-opt %s --rk-fuse -split-input-file -verify-diagnostics

// expected-error @below {{cannot fuse nodes at stage dataflow; run --rk-simplify first}}
func.func @too_early(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<dataflow>} {
  return %x : tensor<2xf32>
}
