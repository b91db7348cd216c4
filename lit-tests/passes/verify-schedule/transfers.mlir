// RUN: rk-opt %s --rk-verify-schedule -split-input-file -verify-diagnostics -o /dev/null

// What waits in host memory, read from the IR: bytes on the device (S7) and in host memory (S12) at each run, and the makespan.
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
// 4,096 bytes take 1,124 ns, the runs beside them 1,000 each.
// expected-remark @below {{'step' is legal: peak 12.00 KiB, budget 12.00 KiB, 5 runs, 0 of them again, 2 transfers, host peak 4.00 KiB of 4.00 KiB, makespan 9248 ns, 248 ns of it waits}}
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

// -----

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
// Peaks are the same for every link; without one there is no makespan, and without a budget of the host no limit.
// expected-remark @below {{'step' is legal: peak 12.00 KiB, budget 12.00 KiB, 5 runs, 0 of them again, 2 transfers, host peak 4.00 KiB}}
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 12288 : i64} {
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

// -----

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
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.host_budget = 2048 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  // expected-error @below {{S12: 4.00 KiB are in host memory while 'up' runs, the budget is 2.00 KiB}}
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

// -----

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
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 11264 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  // expected-error @below {{S7: 12.00 KiB are on the device while 'up' runs, the budget is 11.00 KiB}}
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

// -----

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
// What is fetched counts from the start of its fetch.
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 12288 : i64, rk.host_budget = 4096 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.wait %norm.host : !rk.host<tensor<32x32xf32>>
  rk.drop %norm : tensor<32x32xf32>
  %norm_0 = rk.fetch %norm.host : tensor<32x32xf32>
  // expected-error @below {{S7: 16.00 KiB are on the device while 'down' runs, the budget is 12.00 KiB}}
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.drop %up : tensor<64x32xf32>
  %act = rk.run @act(%down) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.wait %norm_0 : tensor<32x32xf32>
  rk.drop %down : tensor<32x32xf32>
  rk.drop %norm.host : !rk.host<tensor<32x32xf32>>
  %add = rk.run @add(%norm_0, %act) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.drop %norm_0 : tensor<32x32xf32>
  rk.drop %act : tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// -----

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
// What is offloaded counts on the device to the end of its offload.
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 12288 : i64, rk.host_budget = 4096 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  // expected-error @below {{S7: 16.00 KiB are on the device while 'down' runs, the budget is 12.00 KiB}}
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  rk.wait %norm.host : !rk.host<tensor<32x32xf32>>
  rk.drop %norm : tensor<32x32xf32>
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

// -----

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
// Drops count where they stand.
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.budget = 12288 : i64, rk.host_budget = 4096 : i64} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %norm.host = rk.offload %norm : tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.wait %norm.host : !rk.host<tensor<32x32xf32>>
  rk.drop %norm : tensor<32x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %norm_0 = rk.fetch %norm.host : tensor<32x32xf32>
  // expected-error @below {{S7: 20.00 KiB are on the device while 'act' runs, the budget is 12.00 KiB}}
  %act = rk.run @act(%down) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.wait %norm_0 : tensor<32x32xf32>
  rk.drop %down : tensor<32x32xf32>
  rk.drop %norm.host : !rk.host<tensor<32x32xf32>>
  %add = rk.run @add(%norm_0, %act) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.drop %norm_0 : tensor<32x32xf32>
  rk.drop %up : tensor<64x32xf32>
  rk.drop %act : tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// -----

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
// expected-error @below {{S7: 'rk.offsets' has no place for what is fetched}}
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<scheduled>, rk.offsets = array<i64: 0>} {
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

// -----

rk.node @exp cost <1 ns, workspace 0 B> {
^bb0(%x: tensor<16xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  rk.yield %y : tensor<16xf32>
}
// A lowered step has no places for transfers.
// expected-error @below {{'step' has a transfer between device and host memory, which a list of runs and drops cannot hold; plan it again without offload}}
func.func @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {rk.stage = #rk.stage<lowered>, rk.arena = 64 : i64} {
  %0 = rk.buffer arena[0] : tensor<16xf32>
  rk.launch @exp(%x) into(%0) stream(0) : (tensor<16xf32>) -> tensor<16xf32>
  // expected-note @below {{the first transfer is here}}
  %h = rk.offload %0 : tensor<16xf32>
  return %0 : tensor<16xf32>
}
