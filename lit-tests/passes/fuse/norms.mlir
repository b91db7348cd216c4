// RUN: split-file %s %t
// RUN: rk-opt %t/step.mlir "--rk-fuse=exact=false norms=true" --rk-verify-stage | FileCheck %s
// RUN: rk-opt %t/step.mlir "--rk-fuse=exact=false norms=true times=%t/parts.times" --rk-verify-stage | FileCheck %s
// RUN: rk-opt %t/step.mlir "--rk-fuse=exact=false norms=true times=%t/slow.times" --rk-verify-stage | FileCheck %s
// RUN: rk-opt %t/step.mlir "--rk-fuse=exact=false norms=true times=%t/fast.times" --rk-verify-stage | FileCheck %s --check-prefix=WHOLE

// The backward call of a layer norm in bf16, whose weight is f32: products and sums are made in f32. It is taken apart unless the parts were
// measured to be slower than the call as a whole (120 ns to 119 here), whatever each of them was beside its own calls.

// CHECK: rk.node @norm.input backward attributes {rk.kernel}
// CHECK: [true, false, false]
// CHECK: rk.node @norm.weight backward attributes {rk.kernel}
// CHECK: %[[G:.*]] = rk.aten "aten._to_copy.default"(%{{.*}}, 6)
// CHECK: %[[X:.*]] = rk.aten "aten._to_copy.default"(%{{.*}}, 6)
// CHECK: %[[C:.*]] = rk.aten "aten.sub.Tensor"(%[[X]], %{{.*}}, 1)
// CHECK: rk.aten "aten.sum.dim_IntList"({{.*}}) backward : (tensor<4x16xf32>) -> tensor<16xf32>
// CHECK-NEXT: rk.yield
// CHECK: rk.node @norm.bias backward attributes {rk.kernel}
// CHECK: rk.aten "aten._to_copy.default"(%{{.*}}, 6)
// CHECK: rk.aten "aten.sum.dim_IntList"
// WHOLE: rk.node @norm backward {
// WHOLE: [true, true, true]

//--- parts.times
# rk times 1: nanoseconds per node on cpu, 2 threads
norm.input	60	20	aten.native_layer_norm_backward.default
norm.weight	50	20	aten._to_copy.default aten._to_copy.default aten.sub.Tensor aten.mul.Tensor aten.mul.Tensor aten.sum.dim_IntList
norm.bias	10	20	aten._to_copy.default aten.sum.dim_IntList
//--- slow.times
# rk times 1: nanoseconds per node on cpu, 2 threads
norm	121
# rk times 1: nanoseconds per node on cpu, 2 threads
norm.input	60	200	aten.native_layer_norm_backward.default
norm.weight	50	200	aten._to_copy.default aten._to_copy.default aten.sub.Tensor aten.mul.Tensor aten.mul.Tensor aten.sum.dim_IntList
norm.bias	10	20	aten._to_copy.default aten.sum.dim_IntList
//--- fast.times
# rk times 1: nanoseconds per node on cpu, 2 threads
norm	119
# rk times 1: nanoseconds per node on cpu, 2 threads
norm.input	60	200	aten.native_layer_norm_backward.default
norm.weight	50	200	aten._to_copy.default aten._to_copy.default aten.sub.Tensor aten.mul.Tensor aten.mul.Tensor aten.sum.dim_IntList
norm.bias	10	20	aten._to_copy.default aten.sum.dim_IntList
//--- step.mlir
rk.node @norm backward {
^bb0(%g: tensor<4x16xbf16>, %x: tensor<4x16xbf16>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>):
  %h:3 = rk.aten "aten.native_layer_norm_backward.default"(%g, %x, [16], %m, %r, %w, %b, [true, true, true]) backward : (tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>)
  rk.yield %h#0, %h#1, %h#2 : tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>
}
func.func @step(%g: tensor<4x16xbf16>, %x: tensor<4x16xbf16>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>)
    -> (tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>) attributes {rk.stage = #rk.stage<simplified>} {
  %n:3 = rk.run @norm(%g, %x, %m, %r, %w, %b) : (tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>)
  return %n#0, %n#1, %n#2 : tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>
}
