// A lowered step: launches become runs, last uses drops, buffers places.
// REQUIRES: rk-translate
// RUN: rk-opt %S/../passes/lower/from_any_stage.mlir --rk-lower=budget=80%% --mlir-print-debuginfo -o %t.mlir
// RUN: rk-translate %t.mlir --to step | FileCheck %s
// RUN: rk-translate %t.mlir --to json | FileCheck %s --check-prefix=JSON
// RUN: rk-translate %t.mlir --to dot | FileCheck %s --check-prefix=DOT

// CHECK:      "planned_peak_bytes": 201728
// CHECK:      "arena_bytes": 201728
// CHECK:      {"run":{{.*}}"state_out":{{[0-9]+}}
// CHECK:      {"run":{{.*}}"again":true{{.*}}"state_in":{{[0-9]+}}
// CHECK:      "layout": {
// CHECK-NEXT: "target": "cpu",
// CHECK-NEXT: "arena_bytes": 201728,
// CHECK-NEXT: "gradient_bytes": 65536,
// CHECK:      {"slot":2,"space":"arena","offset":0,"bytes":65536,"spec":{"dtype":"f32","shape":[128,128]}}
// CHECK:      {"slot":{{[0-9]+}},"space":"gradients","offset":0,"bytes":65536,"spec":{"dtype":"f32","shape":[128,128]}}
// CHECK:      "launches": [
// CHECK-NEXT: {"instr":0}
// JSON:       "stage": "lowered"
// JSON:       "arena": 201728
// JSON:       "name": "drop"
// JSON:       "run": "drop"
// DOT:        "drop" [label="drop\n0 us\n2 runs"
// DOT:        "mul" -> "tanh"
