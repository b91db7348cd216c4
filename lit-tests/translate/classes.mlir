// REQUIRES: rk-translate
// RUN: rk-opt %S/../passes/anonymize/example.mlir --rk-anonymize -o %t.mlir
// RUN: rk-translate %t.mlir --to json | FileCheck %s
// RUN: rk-translate %t.mlir --to dot | FileCheck %s --check-prefix=DOT
// RUN: not rk-translate %t.mlir --to dot --block nowhere 2>&1 | FileCheck %s --check-prefix=NOWHERE

// Every block stands in exactly one class.
// CHECK:      "classes": [
// CHECK:        "id": 0,
// CHECK-NEXT:   "members": [
// CHECK-NEXT:     "embed"
// CHECK-NEXT:   ]
// CHECK:        "id": 1,
// CHECK-NEXT:   "members": [
// CHECK-NEXT:     "h.0",
// CHECK-NEXT:     "h.1"
// CHECK-NEXT:   ]
// CHECK:        "id": 2,
// CHECK-NEXT:   "members": [
// CHECK-NEXT:     "head..loss"
// CHECK-NEXT:   ]

// Blocks of one class have one colour.
// DOT: "h.0.fc" [label="h.0.fc" fillcolor=[[COLOUR:.*]]];
// DOT: "h.1.fc" [label="h.1.fc" fillcolor=[[COLOUR]]];
// DOT-NOT: "head" [label="head" fillcolor=[[COLOUR]]];

// NOWHERE: no block or module 'nowhere' is drawn; there are
