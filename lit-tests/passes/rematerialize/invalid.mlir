// RUN: split-file %s %t
// RUN: rk-opt %t/infeasible.mlir --rematerialize=budget=8KiB -verify-diagnostics
// RUN: not rk-opt %t/infeasible.mlir --rematerialize 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not rk-opt %t/infeasible.mlir --rematerialize=budget=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not rk-opt %t/infeasible.mlir --rematerialize=budget=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not rk-opt %t/infeasible.mlir --rematerialize=budget=10ZB 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: not rk-opt %t/infeasible.mlir '--rematerialize=budget="5 %%%%"' 2>&1 | FileCheck %s --check-prefix=PERCENT
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB solver=simplex" 2>&1 | FileCheck %s --check-prefix=SOLVER
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB milp=scip" 2>&1 | FileCheck %s --check-prefix=MILP
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="bugdet=1GiB" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB scope=all" 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB time-limit=soon" 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB search-again=cry" 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB again-at-most=soon" 2>&1 | FileCheck %s --check-prefix=AT-MOST
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=8KiB time-limit=auto" 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: env RK_LOG=rk_solve=info not rk-opt %t/infeasible.mlir --rematerialize="budget=8KiB time-limit=auto" 2>&1 | FileCheck %s --check-prefix=ONCE
// RUN: env RK_LOG=rk_solve=info rk-opt %t/infeasible.mlir --rematerialize="budget=8KiB time-limit=auto again-at-most=50ms on-infeasible=smallest" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: env RK_LOG=rk_solve=info rk-opt %t/infeasible.mlir --rematerialize="budget=8KiB time-limit=auto search-again=none on-infeasible=smallest" 2>&1 | FileCheck %s --check-prefix=ONCE
// RUN: not rk-opt %t/infeasible.mlir --rematerialize="budget=1GiB on-infeasible=cry" 2>&1 | FileCheck %s --check-prefix=INSTEAD
// RUN: rk-opt %t/infeasible.mlir --rematerialize="budget=8KiB on-infeasible=smallest addresses=false" 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: not rk-opt %t/lowered.mlir --rematerialize=budget=1GiB 2>&1 | FileCheck %s --check-prefix=STAGE

// NONE: error: rematerialize needs a budget
// ZERO: error: option 'budget' of rematerialize: '0':
// NEGATIVE: error: option 'budget' of rematerialize: '-1':
// HUGE: error: option 'budget' of rematerialize: '10ZB':
// PERCENT: error: option 'budget' of rematerialize: '5 %%':
// SOLVER: error: option 'solver' of rematerialize: 'simplex': unknown solver "simplex"; there are auto
// MILP: error: option 'milp' of rematerialize: 'scip': unknown MILP solver "scip"; there are cbc and highs
// OPTION: no such option bugdet
// SCOPE: error: scope 'all' is neither activations nor total
// LIMIT: error: time-limit 'soon' is no duration
// AGAIN: error: option 'search-again' of rematerialize: 'cry': unknown goal "cry"; there are plan, smallest and none
// AT-MOST: error: again-at-most 'soon' is no duration
// AUTO: error: no schedule of 'step' fits 8.00 KiB; the smallest feasible budget found is 12.00 KiB
// ONCE-NOT: searching again
// ONCE: no schedule of 'step' fits 8.00 KiB
// TWICE: searching again{{.*}}time{{.*}}50ms
// TWICE-NOT: searching again
// TWICE: warning: no schedule of 'step' fits 8.00 KiB
// INSTEAD: error: on-infeasible 'cry' is neither error nor smallest
// SMALLEST: warning: no schedule of 'step' fits 8.00 KiB; the smallest feasible budget found is 12.00 KiB
// SMALLEST-NOT: rk.arena
// SMALLEST: rk.budget = 12288
// STAGE: error: cannot plan a step at stage lowered

//--- infeasible.mlir
rk.node @norm cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
// expected-error @below {{no schedule of 'step' fits 8.00 KiB; the smallest feasible budget found is 12.00 KiB (12288 bytes), and nothing below 12.00 KiB can work}}
// expected-note @below {{'up' holds the peak: while it runs, 'up' (8.00 KiB), 'norm' (4.00 KiB) must be in memory}}
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
rk.node @add cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>, %z: tensor<32x32xf32>):
  %y = rk.aten "aten.add.Tensor"(%x, %z, 1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
func.func @step(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {rk.stage = #rk.stage<costed>} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  %down = rk.run @down(%up) : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %add = rk.run @add(%norm, %down) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %add : tensor<32x32xf32>
}

//--- lowered.mlir
func.func @step() attributes {rk.stage = #rk.stage<lowered>} {
  return
}
