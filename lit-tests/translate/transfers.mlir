// REQUIRES: rk-translate
// RUN: rk-translate %s --to json | FileCheck %s --check-prefix=JSON
// RUN: not rk-translate %s --to step -o %t.rkx 2>&1 | FileCheck %s --check-prefix=STEP

// JSON has the transfers in their places. A step file has none, and says so.
rk.node @norm cost <5000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @up cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.yield %y : tensor<64x32xf32>
}
rk.node @down cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<64x32xf32>):
  %y = rk.aten "aten.max_pool1d.default"(%x, [2], [2], [0], [1], false) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @act cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @add cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>, %z: tensor<32x32xf32>):
  %y = rk.aten "aten.add.Tensor"(%x, %z, 1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 12288 : i64, rk.host_budget = 4096 : i64, rk.bandwidth = 4000000000 : i64, rk.latency = 100 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.wait %norm.host : !rk.host<tensor<32x32xf32>>
  rk.drop %norm : tensor<32x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.drop %up : tensor<64x32xf32>
  %norm_0 = rk.fetch %norm.host : tensor<32x32xf32>
  %act = rk.run @act(%down) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.wait %norm_0 : tensor<32x32xf32>
  rk.drop %down : tensor<32x32xf32>
  rk.drop %norm.host : !rk.host<tensor<32x32xf32>>
  %add = rk.run @add(%norm_0, %act) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.drop %norm_0 : tensor<32x32xf32>
  rk.drop %act : tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// JSON: "bandwidth": 4000000000
// JSON: "schedule": [
// JSON: "run": "norm"
// JSON: "offload": "norm"
// JSON: "run": "up"
// JSON: "wait": "norm"
// JSON-NEXT: "host": true
// JSON: "drop": "norm"
// JSON-NEXT: }
// JSON: "fetch": "norm"
// JSON: "run": "act"
// JSON: "wait": "norm"
// JSON-NEXT: }
// JSON: "drop": "down"
// JSON: "drop": "norm"
// JSON-NEXT: "host": true
// JSON: "run": "add"
// STEP: error: 'step' has 2 transfers between device and host memory, which a step file cannot hold; plan it again without offload
// STEP: note: the first transfer is here
