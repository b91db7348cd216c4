// RUN: not rk-opt %s --rematerialize="budget=12KiB offload" 2>&1 | FileCheck %s --check-prefix=BANDWIDTH
// RUN: not rk-opt %s --rematerialize="budget=12KiB bandwidth=25GB/s" 2>&1 | FileCheck %s --check-prefix=ALONE1
// RUN: not rk-opt %s --rematerialize="budget=12KiB latency=1us" 2>&1 | FileCheck %s --check-prefix=ALONE2
// RUN: not rk-opt %s --rematerialize="budget=12KiB host-budget=8GiB" 2>&1 | FileCheck %s --check-prefix=ALONE3
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload=false bandwidth=25GB/s" 2>&1 | FileCheck %s --check-prefix=ALONE1
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=-25GB/s" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=25GB" 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=0GB/s" 2>&1 | FileCheck %s --check-prefix=STILL
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=25GB/s latency=-1us" 2>&1 | FileCheck %s --check-prefix=LATENCY
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=25GB/s host-budget=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=25GB/s host-budget=50%%" 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload bandwidth=25GB/s host-budget=4095" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not rk-opt %s --rematerialize="budget=0 offload bandwidth=25GB/s" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not rk-opt %s --rematerialize="budget=12KiB offload=8GiB bandwidth=25GB/s" 2>&1 | FileCheck %s --check-prefix=SWITCH
// RUN: rk-opt %s --rematerialize="budget=8KiB offload bandwidth=25GB/s on-infeasible=smallest" 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: not rk-opt %s --rematerialize="budget=8KiB offload bandwidth=25GB/s" 2>&1 | FileCheck %s --check-prefix=INFEASIBLE

// BANDWIDTH: error: offload needs the bandwidth between device and host memory, such as bandwidth=25GB/s
// ALONE1: error: bandwidth=25GB/s is for plans in which values wait in host memory; add offload, or leave it out
// ALONE2: error: latency=1us is for plans in which values wait in host memory; add offload, or leave it out
// ALONE3: error: host-budget=8GiB is for plans in which values wait in host memory; add offload, or leave it out
// NEGATIVE: error: option 'bandwidth' of rematerialize: '-25GB/s': {{.*}}is no rate such as 25GB/s
// UNIT: error: option 'bandwidth' of rematerialize: '25GB': {{.*}}is no rate such as 25GB/s
// STILL: error: option 'bandwidth' of rematerialize: '0GB/s': {{.*}}moves nothing; leave offload out
// LATENCY: error: option 'latency' of rematerialize: '-1us': {{.*}}is no latency such as 10us
// ZERO: error: option 'host-budget' of rematerialize: '0': {{.*}}is zero
// SHARE: error: host-budget '50%': a share of what? Write bytes, such as 8GiB
// SMALL: error: host-budget of 4095 bytes: the smallest value of 'step' that could wait there, 'norm', has 4096
// NOTHING: error: option 'budget' of rematerialize: '0':
// SWITCH: error: offload '8GiB' is neither true nor false; how much host memory there is says host-budget
// SMALLEST: warning: no schedule of 'step' fits 8.00 KiB; the smallest feasible budget found is 12.00 KiB (12288 bytes)
// SMALLEST: rk.budget = 12288
// INFEASIBLE: error: no schedule of 'step' fits 8.00 KiB; the smallest feasible budget found is 12.00 KiB (12288 bytes), and nothing below 12.00 KiB can work
// INFEASIBLE: note: 'up' holds the peak

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
