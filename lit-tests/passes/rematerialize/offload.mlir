// RUN: rk-opt %s --rematerialize="budget=12KiB offload bandwidth=4GB/s latency=100ns host-budget=4KiB timekeeping=work" --rk-verify-schedule --rk-verify-stage | FileCheck %s
// RUN: rk-opt %s --pass-pipeline="builtin.module(rematerialize{budget=75% offload=true bandwidth=4GB/s latency=100ns timekeeping=work})" | FileCheck %s --check-prefix=OPEN
// RUN: rk-opt %s --rematerialize="budget=12KiB offload bandwidth=4GB/s latency=100ns timekeeping=work" --rematerialize=budget=12KiB | FileCheck %s --check-prefix=ANEW
// RUN: rk-opt %s --rematerialize="budget=12KiB offload bandwidth=4GB/s latency=100ns timekeeping=work" --cse --canonicalize --verify-roundtrip | FileCheck %s
// RUN: rk-opt %s --rematerialize="budget=12KiB offload bandwidth=1KB/s timekeeping=work" | FileCheck %s --check-prefix=SLOW
// RUN: rk-opt %s --rematerialize="budget=12KiB offload bandwidth=4GB/s latency=100ns timekeeping=work" --remarks-filter=rematerialize --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=4GB/s timekeeping=work" --rk-lower 2>&1 | FileCheck %s --check-prefix=LOWER

// `norm` takes 5 us, so it is dear to run twice, and `add` reads it only at the end. Behind a link of 4 GB/s it takes 1,124 ns in each
// direction: it leaves while `up` runs, and comes back while `act` does, and the runs wait for what a copy takes longer than they do.

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
func.func @step(%x: tensor<32x32xf32> {rk.role = "input", rk.name = "x"})
    -> (tensor<32x32xf32> {rk.role = "output", rk.name = "0"}) attributes {rk.stage = #rk.stage<costed>} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %act = rk.run @act(%down) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %add = rk.run @add(%norm, %act) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

// CHECK-LABEL: func.func @step(%arg0
// CHECK-SAME:    rk.bandwidth = 4000000000 : i64
// CHECK-SAME:    rk.host_peak = 4096 : i64
// CHECK-SAME:    rk.latency = 100 : i64
// CHECK-SAME:    rk.peak = 12288 : i64
// CHECK-SAME:    rk.stall = 248 : i64
// CHECK-SAME:    rk.time = 9248 : i64
// CHECK-NEXT:    %norm = rk.run @norm(%arg0)
// CHECK-NEXT:    %norm.host = rk.offload %norm : tensor<32x32xf32>
// CHECK-NEXT:    %up = rk.run @up(%norm)
// CHECK-NEXT:    rk.wait %norm.host : !rk.host<tensor<32x32xf32>>
// CHECK-NEXT:    rk.drop %norm : tensor<32x32xf32>
// CHECK-NEXT:    %down = rk.run @down(%up)
// CHECK-NEXT:    rk.drop %up
// CHECK-NEXT:    %norm_0 = rk.fetch %norm.host : tensor<32x32xf32>
// CHECK-NEXT:    %act = rk.run @act(%down)
// CHECK-NEXT:    rk.wait %norm_0 : tensor<32x32xf32>
// CHECK-NEXT:    rk.drop %down
// CHECK-NEXT:    rk.drop %norm.host : !rk.host<tensor<32x32xf32>>
// CHECK-NEXT:    %add = rk.run @add(%norm_0, %act)
// CHECK-NEXT:    rk.drop %norm_0
// CHECK-NEXT:    rk.drop %act
// CHECK-NEXT:    return %add

// Without a budget of the host there is no attribute for it.
// OPEN-NOT: rk.host_budget
// OPEN: rk.offload %norm

// Planned anew without offload, a step has neither transfers nor what it said of them.
// ANEW-LABEL: func.func @step
// ANEW-NOT:   rk.bandwidth
// ANEW-NOT:   rk.host_peak
// ANEW-SAME:  rk.time = 14000 : i64
// ANEW-NOT:   rk.offload
// ANEW:       rk.run again @norm

// Over a link that takes four seconds for it, nothing moves.
// SLOW-LABEL: func.func @step
// SLOW-SAME:  rk.host_peak = 0 : i64
// SLOW-SAME:  rk.stall = 0 : i64
// SLOW-NOT:   rk.offload
// SLOW:       rk.run again @norm

// REMARK: remark: [Passed] schedule
// REMARK-SAME: 2.76 % more time
// REMARK-SAME: 2 transfers, host peak 4.00 KiB, waits of 2.76 %; recomputation alone 55.56 % more, transfers alone 2.76 % more
// REMARK-SAME: host_peak_bytes=4096
// REMARK-SAME: makespan_ns=9248
// REMARK-SAME: stall_ns=248
// REMARK-SAME: transfers=2

// LOWER: error: 'step' has 2 transfers between device and host memory, which a lowered step cannot hold; plan it again without offload
