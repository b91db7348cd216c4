// REQUIRES: rk-translate, rk-plan
// RUN: rk-translate %s --to graph -o %t.json
// RUN: FileCheck %s < %t.json
// RUN: rk-plan %t.json --budget 100%% --json | FileCheck %s --check-prefix=PLAN
// RUN: sed 's/ cost <[^>]*>//; s/<costed>/<simplified>/' %s > %t.mlir
// RUN: not rk-translate %t.mlir --to graph 2>&1 | FileCheck %s --check-prefix=STAGE

// What the planner sees of a step, as rk-plan reads it: bytes rounded up to the alignment, results that leave the step pinned.
// CHECK:      {"name": "step", "time_unit": "ns", "nodes": [
// CHECK-NEXT: {"id": 0, "kind": "fwd", "name": "norm", "time": 1000, "module": "block.norm", "bytes": 4096, "deps": []},
// CHECK-NEXT: {"id": 1, "kind": "fwd", "name": "up", "time": 2000, "module": "block.up", "bytes": 8192, "pinned": true, "deps": [0], "workspace": 64}
// CHECK-NEXT: ]}
// PLAN: "status":"optimal"
// STAGE: node 'norm' has no cost
module attributes {rk.alignment = 64 : i64, rk.device = "cpu"} {
  rk.node @norm cost <1000 ns, workspace 0 B> {
  ^bb0(%x: tensor<32x32xf32>):
    %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("block.norm")
    rk.yield %y : tensor<32x32xf32>
  }
  rk.node @up cost <2000 ns, workspace 64 B> {
  ^bb0(%x: tensor<32x32xf32>):
    %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32> loc("block.up")
    rk.yield %y : tensor<64x32xf32>
  }
  func.func @step(%x: tensor<32x32xf32> {rk.role = "input", rk.name = "x"})
      -> (tensor<64x32xf32> {rk.role = "output", rk.name = "0"})
      attributes {rk.stage = #rk.stage<costed>} {
    %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
    return %up : tensor<64x32xf32>
  }
}
