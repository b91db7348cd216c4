// REQUIRES: rk-translate, rk-run
// RUN: rk-opt %s "--rk-fuse=exact=false norms=true" -o %t.fused.mlir
// RUN: FileCheck %s --check-prefix=PARTS < %t.fused.mlir
// RUN: rk-opt %t.fused.mlir --rematerialize=budget=100%% --rk-lower -o %t.mlir
// RUN: rk-translate %t.mlir --to step -o %t.rkx
// RUN: rk-run %t.rkx --check --steps 2 --repeat 0 --json | FileCheck %s
// RUN: rk-opt %s "--rk-fuse=norms=true" | FileCheck %s --check-prefix=EXACT

// The backward call of a layer norm becomes three nodes. What is in front of it goes into its gradient by the input, too, where that
// keeps no more in memory; here the sums read it as well.
rk.node @norm backward {
^bb0(%g: tensor<4x33x16xf32>, %x: tensor<4x33x16xf32>, %m: tensor<4x33x1xf32>, %r: tensor<4x33x1xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>):
  %h:3 = rk.aten "aten.native_layer_norm_backward.default"(%g, %x, [16], %m, %r, %w, %b, [true, true, true]) backward : (tensor<4x33x16xf32>, tensor<4x33x16xf32>, tensor<4x33x1xf32>, tensor<4x33x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x33x16xf32>, tensor<16xf32>, tensor<16xf32>)
  rk.yield %h#0, %h#1, %h#2 : tensor<4x33x16xf32>, tensor<16xf32>, tensor<16xf32>
}
func.func @step(%g: tensor<4x33x16xf32> {rk.role = "input", rk.name = "g"},
                %x: tensor<4x33x16xf32> {rk.role = "input", rk.name = "x"},
                %m: tensor<4x33x1xf32> {rk.role = "input", rk.name = "m"},
                %r: tensor<4x33x1xf32> {rk.role = "input", rk.name = "r"},
                %w: tensor<16xf32> {rk.role = "parameter", rk.name = "weight"},
                %b: tensor<16xf32> {rk.role = "parameter", rk.name = "bias"})
    -> (tensor<4x33x16xf32> {rk.role = "output", rk.name = "0"}, tensor<16xf32> {rk.role = "output", rk.name = "1"},
        tensor<16xf32> {rk.role = "output", rk.name = "2"}) attributes {rk.stage = #rk.stage<simplified>} {
  %n:3 = rk.run @norm(%g, %x, %m, %r, %w, %b) : (tensor<4x33x16xf32>, tensor<4x33x16xf32>, tensor<4x33x1xf32>, tensor<4x33x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x33x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return %n#0, %n#1, %n#2 : tensor<4x33x16xf32>, tensor<16xf32>, tensor<16xf32>
}

// PARTS: rk.node @norm.input backward attributes {rk.kernel}
// PARTS: none, [true, false, false]
// PARTS: rk.node @norm.weight backward attributes {rk.kernel}
// PARTS: "aten.sum.dim_IntList"({{.*}}, [0, 1], false, none)
// PARTS: rk.node @norm.bias backward attributes {rk.kernel}
// CHECK: "outside_allocations":0,{{.*}}"bit_equal":true,{{.*}}"stated_terms":132,
// EXACT-NOT: rk.kernel
// EXACT: [true, true, true]
