func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {rk.stage = #rk.stage<raw>} {
  return %x : tensor<2xf32>
}
