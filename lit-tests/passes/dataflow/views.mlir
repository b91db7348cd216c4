// RUN: rk-opt %s --rk-dataflow --rk-verify-stage | FileCheck %s

// A view made before a write shows the new content afterwards, as in PyTorch: its chain is built again.
// CHECK-LABEL: func.func @view_before_write
// CHECK:         %[[A:.*]] = rk.aten "aten.relu.default"
// CHECK:         %[[W:.*]] = rk.write(%[[A]])
// CHECK:         %[[V:.*]] = rk.aten "aten.select.int"(%[[W]], 0, 1) aliases(0)
// CHECK:         return %[[V]]
func.func @view_before_write(%x: tensor<2x3xf32>) -> tensor<3xf32, #rk.strided<[1]>> attributes {rk.stage = #rk.stage<raw>} {
  %a = rk.aten "aten.relu.default"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %v = rk.aten "aten.select.int"(%a, 0, 1) aliases(0) : (tensor<2x3xf32>) -> tensor<3xf32, #rk.strided<[1]>>
  %z = rk.aten "aten.zero_.default"(%a) writes(0) aliases(0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %v : tensor<3xf32, #rk.strided<[1]>>
}

// A write through one view, read through another: both views belong to the same base.
// CHECK-LABEL: func.func @copy_within
// CHECK:         %[[A:.*]] = rk.aten "aten.relu.default"
// CHECK:         %[[W:.*]] = rk.write(%[[A]])
// CHECK-NEXT:    ^bb0(%[[B:.*]]: tensor<2x3xf32>):
// CHECK-DAG:       %[[FIRST:.*]] = rk.aten "aten.select.int"(%[[B]], 0, 0)
// CHECK-DAG:       %[[SECOND:.*]] = rk.aten "aten.select.int"(%[[B]], 0, 1)
// CHECK:           rk.aten "aten.copy_.default"(%[[FIRST]], %[[SECOND]], false) writes(0)
func.func @copy_within(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {rk.stage = #rk.stage<raw>} {
  %a = rk.aten "aten.relu.default"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %v = rk.aten "aten.select.int"(%a, 0, 0) aliases(0) : (tensor<2x3xf32>) -> tensor<3xf32>
  %u = rk.aten "aten.select.int"(%a, 0, 1) aliases(0) : (tensor<2x3xf32>) -> tensor<3xf32>
  %c = rk.aten "aten.copy_.default"(%v, %u, false) writes(0) aliases(0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %a : tensor<2x3xf32>
}

// Running statistics can be left out on a second run, so they become effects; the same operator in evaluation writes nothing.
// CHECK-LABEL: func.func @batch_norm
// CHECK:         rk.aten "aten.native_batch_norm.default"({{.*}}, true, 0.1, 1.0e-5) effects(1, 2)
func.func @batch_norm(%x: tensor<4x2x3xf32>, %mean: tensor<2xf32> {rk.role = "buffer", rk.name = "bn.running_mean"},
                      %var: tensor<2xf32> {rk.role = "buffer", rk.name = "bn.running_var"})
    -> tensor<4x2x3xf32> attributes {rk.stage = #rk.stage<raw>} {
  %y:3 = rk.aten "aten.native_batch_norm.default"(%x, none, none, %mean, %var, true, 0.1, 1.0e-05) writes(1, 2)
      : (tensor<4x2x3xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  return %y#0 : tensor<4x2x3xf32>
}

// Without weights, running statistics in float32 say in which precision bfloat16 is normalized: they stay, and it runs once.
// CHECK-LABEL: func.func @batch_norm_of_lower_precision
// CHECK:         rk.aten "aten.native_batch_norm.default"({{.*}}, true, 0.1, 1.0e-5) writes(1, 2)
func.func @batch_norm_of_lower_precision(%x: tensor<4x2x3xbf16>,
                                         %mean: tensor<2xf32> {rk.role = "buffer", rk.name = "bn.running_mean"},
                                         %var: tensor<2xf32> {rk.role = "buffer", rk.name = "bn.running_var"})
    -> tensor<4x2x3xbf16> attributes {rk.stage = #rk.stage<raw>} {
  %y:3 = rk.aten "aten.native_batch_norm.default"(%x, none, none, %mean, %var, true, 0.1, 1.0e-05) writes(1, 2)
      : (tensor<4x2x3xbf16>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2x3xbf16>, tensor<2xf32>, tensor<2xf32>)
  return %y#0 : tensor<4x2x3xbf16>
}

// Two values written at once: the first in place, the second through a copy; a result that is neither is yielded as well.
// CHECK-LABEL: func.func @two_targets
// CHECK:         %[[A:.*]] = rk.aten "aten.neg.default"
// CHECK:         %[[B:.*]] = rk.aten "aten.exp.default"
// CHECK:         %[[W:.*]]:3 = rk.write(%[[A]], %[[B]], %{{.*}})
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2xf32>, %[[Z:.*]]: tensor<2xf32>):
// CHECK-NEXT:      %[[COPY:.*]] = rk.aten "aten.clone.default"(%[[Y]], none)
// CHECK-NEXT:      %[[MADE:.*]] = rk.aten "mylib.both.default"(%[[Z]], %[[X]], %[[COPY]]) writes(1, 2)
// CHECK-NEXT:      rk.yield %[[X]], %[[COPY]], %[[MADE]]
// CHECK:         return %[[W]]#0, %[[W]]#1, %[[W]]#2
func.func @two_targets(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) attributes {rk.stage = #rk.stage<raw>} {
  %a = rk.aten "aten.neg.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = rk.aten "aten.exp.default"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %c = rk.aten "mylib.both.default"(%x, %a, %b) writes(1, 2) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
