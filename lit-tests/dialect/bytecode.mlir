// Bytecode keeps everything: ops, attributes, types, and the module path of a location.
// RUN: rk-opt %s --emit-bytecode -o %t.mlirbc
// RUN: rk-opt %t.mlirbc --mlir-print-debuginfo | FileCheck %s

// CHECK: rk.node @fc random once backward cost <7 ns, workspace 1 B>
rk.node @fc random once backward cost <7 ns, workspace 1 B> {
^bb0(%x: tensor<2xcomplex<f32>, #rk.strided<[3], storage 64>>):
  // CHECK: %mul = rk.aten "aten.mul.Tensor"(%{{.*}}, 0.1, none, [true, "s"]) random : {{.*}} loc(#[[LOC:.*]])
  %y = rk.aten "aten.mul.Tensor"(%x, 0.1, none, [true, "s"]) random : (tensor<2xcomplex<f32>, #rk.strided<[3], storage 64>>) -> tensor<2xui8> loc("layer1.0.fc")
  rk.yield %y : tensor<2xui8>
}

// CHECK: func.func @step{{.*}}rk.stage = #rk.stage<blocks>
func.func @step(%g: !rk.generator, %n: none) -> tensor<bf16> attributes {rk.stage = #rk.stage<blocks>} {
  // CHECK: rk.constant dense<1.500000e+00> : tensor<bf16>
  %c = rk.constant dense<1.5> : tensor<bf16>
  return %c : tensor<bf16>
}
// CHECK: #[[LOC]] = loc("layer1.0.fc")
