// RUN: rk-opt %s --rk-annotate-cost | FileCheck %s

// The model is that of the device: on a GPU, 2 · 4096³ operations at 100 per picosecond, and a launch of 4 us.
// CHECK: rk.node @product cost <1378390 ns, workspace 0 B>
// A transposed convolution meets every weight at each element of its input: 2 · 9 · 64 · 64 · 2^20 operations.
// CHECK: rk.node @convolution cost <777094 ns, workspace 0 B>
// A kernel saves a launch, and 4 MiB written and read at 2 bytes per picosecond: 8194 ns of 20000.
// CHECK: rk.node @kernel cost <11806 ns, workspace 0 B>
module attributes {rk.device = "cuda:0"} {
  rk.node @product {
  ^bb0(%x: tensor<4096x4096xf32>):
    %y = rk.aten "aten.mm.default"(%x, %x) : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    rk.yield %y : tensor<4096x4096xf32>
  }
  rk.node @convolution {
  ^bb0(%x: tensor<4x64x512x512xf32>, %w: tensor<64x64x3x3xf32>):
    %y = rk.aten "aten.convolution.default"(%x, %w, none, [1, 1], [1, 1], [1, 1], true, [0, 0], 1) : (tensor<4x64x512x512xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x512x512xf32>
    rk.yield %y : tensor<4x64x512x512xf32>
  }
  rk.node @kernel attributes {rk.kernel} {
  ^bb0(%x: tensor<1048576xf32>):
    %e = rk.aten "aten.exp.default"(%x) cost <10000 ns, workspace 0 B> : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %t = rk.aten "aten.tanh.default"(%e) cost <10000 ns, workspace 0 B> : (tensor<1048576xf32>) -> tensor<1048576xf32>
    rk.yield %t : tensor<1048576xf32>
  }
  func.func @step(%x: tensor<4096x4096xf32>, %i: tensor<4x64x512x512xf32>, %w: tensor<64x64x3x3xf32>, %v: tensor<1048576xf32>)
      -> (tensor<4096x4096xf32>, tensor<4x64x512x512xf32>, tensor<1048576xf32>) attributes {rk.stage = #rk.stage<simplified>} {
    %product = rk.run @product(%x) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %convolution = rk.run @convolution(%i, %w) : (tensor<4x64x512x512xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x512x512xf32>
    %kernel = rk.run @kernel(%v) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    return %product, %convolution, %kernel : tensor<4096x4096xf32>, tensor<4x64x512x512xf32>, tensor<1048576xf32>
  }
}
