// --cse would love to undo a recomputation, and --canonicalize to erase it: pin that they cannot.
// RUN: rk-opt %s --cse --canonicalize | FileCheck %s
// RUN: rk-opt %s --canonicalize --cse --symbol-dce --loop-invariant-code-motion | FileCheck %s

// CHECK-LABEL: rk.node @gelu
rk.node @gelu {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.gelu.default"(%x, "none") : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @drop random {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.dropout.default"(%x, 0.5, true) random : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
rk.node @count once {
^bb0(%n: tensor<i64>):
  %y = rk.aten "aten.add_.Scalar"(%n, 1, 1) writes(0) aliases(0) : (tensor<i64>) -> tensor<i64>
  rk.yield
}

// A schedule is exact: nothing in it is merged, erased or moved, not even a run whose only user is its drop.
// CHECK-LABEL: func.func @schedule
func.func @schedule(%x: tensor<8xf32>, %n: tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>) attributes {rk.stage = #rk.stage<scheduled>} {
  // CHECK-NEXT: %gelu = rk.run @gelu(%arg0)
  %gelu = rk.run @gelu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %drop, %drop.state = rk.run @drop(%gelu)
  %drop, %state = rk.run @drop(%gelu) : (tensor<8xf32>) -> (tensor<8xf32>, !rk.generator)
  // CHECK-NEXT: rk.drop %gelu
  rk.drop %gelu : tensor<8xf32>
  // CHECK-NEXT: rk.run @count
  rk.run @count(%n) : (tensor<i64>) -> ()
  // CHECK-NEXT: %gelu_0 = rk.run again @gelu(%arg0)
  %gelu_0 = rk.run again @gelu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: rk.drop %gelu_0
  rk.drop %gelu_0 : tensor<8xf32>
  // CHECK-NEXT: %gelu_1 = rk.run again @gelu(%arg0)
  %gelu_1 = rk.run again @gelu(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: rk.drop %drop
  rk.drop %drop : tensor<8xf32>
  // CHECK-NEXT: %drop_2 = rk.run again @drop(%gelu_1, %drop.state)
  %drop_1 = rk.run again @drop(%gelu_1, %state) : (tensor<8xf32>, !rk.generator) -> tensor<8xf32>
  // CHECK-NEXT: rk.drop %drop.state
  rk.drop %state : !rk.generator
  // CHECK-NEXT: return %drop_2, %gelu_1
  return %drop_1, %gelu_1 : tensor<8xf32>, tensor<8xf32>
}

// A recorded step: what writes or draws stays, in order; equal fresh calls are not merged; what nobody uses may go.
// CHECK-LABEL: func.func @recorded
func.func @recorded(%x: tensor<8xf32>, %n: tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>) attributes {rk.stage = #rk.stage<raw>} {
  // CHECK-NEXT: %exp = rk.aten "aten.exp.default"(%arg0)
  // CHECK-NEXT: %exp_0 = rk.aten "aten.exp.default"(%arg0)
  %a = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %relu_ = rk.aten "aten.relu_.default"(%exp_0)
  %c = rk.aten "aten.relu_.default"(%b) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %add_ = rk.aten "aten.add_.Scalar"(%arg1, 1, 1)
  %u = rk.aten "aten.add_.Scalar"(%n, 1, 1) writes(0) aliases(0) : (tensor<i64>) -> tensor<i64>
  // CHECK-NEXT: %rand_like = rk.aten
  // CHECK-NEXT: %rand_like_1 = rk.aten
  // CHECK-NEXT: %rand_like_2 = rk.aten
  %r = rk.aten "aten.rand_like.default"(%x) random : (tensor<8xf32>) -> tensor<8xf32>
  %s = rk.aten "aten.rand_like.default"(%x) random : (tensor<8xf32>) -> tensor<8xf32>
  %unused = rk.aten "aten.rand_like.default"(%x) random : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: rk.aten "aten._assert_async.default"(%arg1)
  rk.aten "aten._assert_async.default"(%n) : (tensor<i64>) -> ()
  // Constants are not merged: an in-place operator may write to one of them.
  // CHECK-NEXT: rk.constant
  // CHECK-NEXT: rk.constant
  %k = rk.constant dense<0.0> : tensor<2xf32>
  %l = rk.constant dense<0.0> : tensor<2xf32>
  // A view, a fresh value and a new version that nobody uses are erased.
  // CHECK-NEXT: return
  %v = rk.aten "aten.view.default"(%x, [8]) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
  %d = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %w = rk.write(%x) {
  ^bb0(%y: tensor<8xf32>):
    %z = rk.aten "aten.relu_.default"(%y) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
    rk.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b, %r, %s, %k, %l : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>
}
