// RUN: split-file %s %t
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/fast.times --rk-verify-stage | FileCheck %s --check-prefix=FAST
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/slow.times --rk-verify-stage | FileCheck %s --check-prefix=SLOW
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/slower.times --rk-verify-stage | FileCheck %s --check-prefix=APART
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/other.times --rk-verify-stage | FileCheck %s --check-prefix=FAST
// RUN: rk-opt %t/step.mlir "--rk-fuse=alone=true times=%t/alone.times" --rk-verify-stage | FileCheck %s --check-prefix=ALONE
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/dear.times --rk-verify-stage | FileCheck %s --check-prefix=DEAR
// RUN: rk-opt %t/step.mlir --rk-fuse=times=%t/cheap.times --rk-verify-stage | FileCheck %s --check-prefix=SLOW
// RUN: rk-opt %t/step.mlir "--rematerialize=budget=100%% fuse=true times=%t/cheap.times" | FileCheck %s --check-prefix=PLANNED
// RUN: not rk-opt %t/step.mlir --rk-fuse=times=%t/step.mlir 2>&1 | FileCheck %s --check-prefix=BAD

// A kernel that was measured to be slower than its calls is not made. What is left of it may be another kernel, of `scale` and `shift`
// here, which counts as faster until it has been measured, too. The kernel of `late` was slower as well, but without it `early` would be
// kept until then, through `fc`; that is worth what another run of `early` takes, and no more, once it is known.

// FAST-NOT: rk.node @scale
// FAST: rk.node @cut attributes {rk.kernel}
// FAST: rk.node @late attributes {rk.kernel}
// SLOW-NOT: rk.node @scale
// SLOW: rk.node @shift attributes {rk.kernel}
// SLOW: rk.node @cut {
// SLOW: rk.node @late attributes {rk.kernel}
// APART: rk.node @scale {
// APART: rk.node @shift {
// APART: rk.node @cut {
// APART: rk.node @late attributes {rk.kernel}
// On its own a node is a kernel only where that was asked for, and was not slower.
// ALONE: rk.node @scale attributes {rk.kernel}
// ALONE: rk.node @shift {
// ALONE: rk.node @cut {
// ALONE: rk.node @fc {
// DEAR: rk.node @early {
// DEAR: rk.node @late {
// The planner has the times of the file: of `fc`, and of the kernel that is left. That of the other one is nobody's.
// PLANNED: rk.node @cut cost <1{{[0-9]+}} ns
// PLANNED: rk.node @fc cost <500 ns
// PLANNED: rk.node @late cost <90 ns{{.*}}rk.kernel
// BAD: error: rk-fuse: {{.*}}step.mlir: it does not begin with '# rk times 1:'

//--- fast.times
# rk times 1: nanoseconds per node on cpu, 2 threads
cut	70	90	aten.mul.Tensor aten.add.Tensor aten.relu.default
late	70	90	aten.neg.default aten.add.Tensor
fc	500
//--- slow.times
# rk times 1: nanoseconds per node on cpu, 2 threads
cut	90	70	aten.mul.Tensor aten.add.Tensor aten.relu.default
late	90	70	aten.neg.default aten.add.Tensor
fc	500
//--- slower.times
# rk times 1: nanoseconds per node on cpu, 2 threads
shift	90	70	aten.mul.Tensor aten.add.Tensor
cut	90	70	aten.mul.Tensor aten.add.Tensor aten.relu.default
late	90	70	aten.neg.default aten.add.Tensor
//--- dear.times
# rk times 1: nanoseconds per node on cpu, 2 threads
early	19
cut	90	70	aten.mul.Tensor aten.add.Tensor aten.relu.default
late	90	70	aten.neg.default aten.add.Tensor
//--- cheap.times
# rk times 1: nanoseconds per node on cpu, 2 threads
early	20
cut	90	70	aten.mul.Tensor aten.add.Tensor aten.relu.default
late	90	70	aten.neg.default aten.add.Tensor
fc	500
//--- alone.times
# rk times 1: nanoseconds per node on cpu, 2 threads
scale	70	90	aten.mul.Tensor
shift	90	70	aten.add.Tensor
shift	90	70	aten.mul.Tensor aten.add.Tensor
cut	90	70	aten.relu.default
cut	90	70	aten.mul.Tensor aten.add.Tensor aten.relu.default
//--- other.times
# rk times 1: of another network, in which nodes of these names were made of other calls
cut	90	70	aten.mul.Tensor aten.relu.default
//--- step.mlir
rk.node @early {
^bb0(%x: tensor<8x8xf32>):
  %h = rk.aten "aten.neg.default"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
rk.node @scale {
^bb0(%x: tensor<8x8xf32>):
  %h = rk.aten "aten.mul.Tensor"(%x, 0.5) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
rk.node @shift {
^bb0(%x: tensor<8x8xf32>):
  %h = rk.aten "aten.add.Tensor"(%x, 2.0, 1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
rk.node @cut {
^bb0(%x: tensor<8x8xf32>):
  %h = rk.aten "aten.relu.default"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
rk.node @fc {
^bb0(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>):
  %h = rk.aten "aten.mm.default"(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
rk.node @late {
^bb0(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>):
  %h = rk.aten "aten.add.Tensor"(%x, %y, 1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  rk.yield %h : tensor<8x8xf32>
}
func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {rk.stage = #rk.stage<simplified>} {
  %e = rk.run @early(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = rk.run @scale(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = rk.run @shift(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = rk.run @cut(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = rk.run @fc(%c, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %l = rk.run @late(%e, %f) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %l : tensor<8x8xf32>
}
